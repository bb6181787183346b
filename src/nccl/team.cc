#include "src/nccl/team.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "src/api/part.h"
#include "src/base/deadline.h"
#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/log.h"
#include "src/device/stream_order.h"
#include "src/nccl/patience.h"
#include "src/nccl/real.h"

namespace bps::nccl {
namespace {

// Below it, starting NCCL's kernels takes longer than to copy the buffer whole.
constexpr size_t kLeastBytes = 256U << 10;
// A call is cut into so many pieces at most, and none smaller than this.
constexpr size_t kPieces = 8, kLeastPiece = 4U << 20;

constexpr std::chrono::milliseconds kTelling{100};

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kUsualLaunch{1};

ncclResult_t told(const Status& status) {
  if (status.ok()) return ncclSuccess;
  logWarn(Subsystem::kColl, "{}", status.message());
  return ncclOf(static_cast<bpsResult_t>(status.code()));
}

void* at(const void* buffer, size_t element, const Call& call) {
  return static_cast<uint8_t*>(const_cast<void*>(buffer)) + element * call.elementBytes();
}

}  // namespace

Result<std::unique_ptr<Team>> Team::create(const Shape& shape, cuda::Device& device, ncclComm_t inside,
                                           bpsComm_t across, std::function<bool()> stop) {
  std::unique_ptr<Team> team(new Team(shape, device, inside, across));
  team->stop_ = std::move(stop);
  team->aside_ = BPS_TRY(cuda::OwnStream::create(device, cuda::OwnStream::Use::kWaits));
  team->tail_ = BPS_TRY(cuda::OwnStream::create(device, cuda::OwnStream::Use::kWaits));
  while (team->owns() && team->streams_.size() < kPieces)
    team->streams_.push_back(BPS_TRY(cuda::OwnStream::create(device, cuda::OwnStream::Use::kWaits)));
  return team;
}

void Team::becomePartOf(bpsComm_t whole, const std::string& part) {
  const MutexLock lock(mutex_);
  whole_ = whole;
  if (across_ != nullptr) (void)commBecomesPart(across_, whole, part);
}

std::string Team::inWords() const {
  const std::string parts = shape_.only ? "" : fmt::format(", {} of which own a part each", shape_.owners);
  return fmt::format("calls of {} bytes and more by NCCL on {} GPUs{}; {}", kLeastBytes, shape_.size, parts,
                     shape_.anyOrder ? "sums in NCCL's order (BPS_NCCL_LOCAL=any)" : "the same bits as by bps");
}

bool Team::takes(const Call& call) const {
  // Averages, and operations of the user, whose numbers come after it, are divided or multiplied once.
  if (call.type >= ncclFloat8e4m3 || call.op >= ncclAvg || call.bytes() < kLeastBytes) return false;
  // A sum of two is the same in any order (but for which NaN a NaN is); the least and the greatest are not where there
  // are NaNs.
  return shape_.anyOrder || call.type < ncclFloat16 || call.op == ncclSum;
}

// Nothing may enter but the call and what all ranks know.
std::vector<Team::Piece> Team::cut(const Call& call) const {
  const auto owners = static_cast<size_t>(shape_.owners);
  const size_t pieces = std::clamp<size_t>(call.bytes() / kLeastPiece, 1, kPieces);
  const size_t most = (call.count / pieces / owners + 1) * owners;
  std::vector<Piece> cut;
  for (size_t offset = 0; offset < call.count; offset += cut.back().count) {
    Piece piece{offset, std::min(most, call.count - offset), {}, false};
    for (size_t owner = 0; owner < owners; ++owner) {
      const size_t begin = piece.count * owner / owners, end = piece.count * (owner + 1) / owners;
      piece.parts.push_back({offset + begin, end - begin});
    }
    piece.even = piece.count % owners == 0 && shape_.owners == shape_.size;
    cut.push_back(std::move(piece));
  }
  return cut;
}

ncclComm_t Team::inside() {
  const MutexLock lock(mutex_);
  return inside_;
}

ncclResult_t Team::issue(const Call& call) {
  bool begun = false;
  const ncclResult_t issued = issueAlone(call, begun);
  return whetherWhole(issued, begun);
}

// NCCL's groups are a thread's: another thread is in none. It may have another default stream than the caller, so it is
// given one that is the same for both.
ncclResult_t Team::issueInGroup(const Call& call) {
  Call aside = call;
  aside.stream = aside_->get();
  ncclResult_t first = told(cuda::follow(device_, aside.stream, call.stream));
  if (first != ncclSuccess) return first;
  bool begun = false;
  std::thread([&] { first = issueAlone(aside, begun); }).join();
  if (first == ncclSuccess) first = told(cuda::follow(device_, call.stream, aside.stream));
  return whetherWhole(first, begun);
}

ncclResult_t Team::issueAlone(const Call& call, bool& begun) {
  {
    const MutexLock lock(mutex_);
    if (ended_ || broken_) return ncclInvalidUsage;
    issuing_ = true;
  }
  ncclResult_t issued = issuePieces(call, begun);
  // Also of a call of which only a part is in its stream.
  const ncclResult_t followed = told(cuda::follow(device_, tail_->get(), call.stream));
  if (issued == ncclSuccess) issued = followed;
  {
    const MutexLock lock(mutex_);
    issuing_ = false;
  }
  left_.notifyAll();
  return issued;
}

ncclResult_t Team::whetherWhole(ncclResult_t issued, bool begun) {
  if (issued == ncclSuccess || !begun) return issued;
  const MutexLock lock(mutex_);
  broken_ = true;
  // Where the part has failed, all hear of that.
  bpsResult_t part = bpsSuccess;
  if (across_ != nullptr) (void)bpsCommGetAsyncError(across_, &part);
  if (ended_ || whole_ == nullptr || part != bpsSuccess) return issued;
  (void)commFail(whole_, static_cast<bpsResult_t>(issued),
                 fmt::format("an all-reduce was issued in part: {}", BPS_REAL(ncclGetErrorString, issued)));
  return issued;
}

ncclResult_t Team::issuePieces(const Call& call, bool& begun) {
  if (shape_.only) {
    const ncclComm_t inside = this->inside();
    if (inside == nullptr) return ncclInvalidUsage;
    begun = true;
    return launched(BPS_REAL(ncclAllReduce, call.send, call.recv, call.count, call.type, call.op, inside, call.stream));
  }
  const std::vector<Piece> pieces = cut(call);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (const ncclResult_t done = gatherIn(call, pieces[i]); done != ncclSuccess) return done;
    begun = begun || shape_.size > 1;
    if (!owns()) continue;
    const ncclResult_t done = exchange(call, pieces[i], streams_[i]->get());
    if (done != ncclSuccess) return done;
    begun = true;
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (owns())
      if (const ncclResult_t done = told(cuda::follow(device_, call.stream, streams_[i]->get())); done != ncclSuccess)
        return done;
    if (const ncclResult_t done = spreadOut(call, pieces[i]); done != ncclSuccess) return done;
  }
  return ncclSuccess;
}

// What NCCL was asked for is in its stream, and NCCL may be asked for more: a non-blocking communicator says so later.
ncclResult_t Team::launched(ncclResult_t asked) {
  for (const auto start = Clock::now(); asked == ncclInProgress;) {
    if (stop_ && stop_()) return ncclRemoteError;
    {
      const MutexLock lock(mutex_);
      if (inside_ == nullptr) return ncclInvalidUsage;
      const ncclResult_t looked = BPS_REAL(ncclCommGetAsyncError, inside_, &asked);
      if (looked != ncclSuccess) return looked;
    }
    if (Clock::now() - start < kUsualLaunch) std::this_thread::yield();
    else std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return asked;
}

// Every owner's part of the team's sum comes into its receive buffer.
ncclResult_t Team::gatherIn(const Call& call, const Piece& piece) {
  const void* send = at(call.send, piece.offset, call);
  if (shape_.size == 1) {
    // The team's sum is the contribution.
    if (call.send == call.recv) return ncclSuccess;
    const cuda::Api& api = device_.api();
    Result<cuda::Context> context = cuda::contextOf(device_, call.stream);
    if (!context.ok()) return told(context.error());
    const cuda::Scope scope(api, std::move(context).value());
    return told(cuda::check(
        api,
        api.memcpyAsync(reinterpret_cast<cuda::Address>(at(call.recv, piece.offset, call)),
                        reinterpret_cast<cuda::Address>(send), piece.count * call.elementBytes(), call.stream),
        "cuMemcpyAsync"));
  }
  const ncclComm_t inside = this->inside();
  if (inside == nullptr) return ncclInvalidUsage;
  if (piece.even) {
    const Part& mine = piece.parts[static_cast<size_t>(shape_.place)];
    return launched(BPS_REAL(ncclReduceScatter, send, at(call.recv, mine.offset, call), mine.count, call.type, call.op,
                             inside, call.stream));
  }
  ncclResult_t first = BPS_REAL(ncclGroupStart);
  for (int owner = 0; owner < shape_.owners && first == ncclSuccess; ++owner) {
    const Part& part = piece.parts[static_cast<size_t>(owner)];
    if (part.count > 0)
      first = BPS_REAL(ncclReduce, at(call.send, part.offset, call), at(call.recv, part.offset, call), part.count,
                       call.type, call.op, owner, inside, call.stream);
  }
  const ncclResult_t ended = launched(BPS_REAL(ncclGroupEnd));
  return first != ncclSuccess ? first : ended;
}

// bps all-reduces this owner's part, on a stream beside the caller's.
ncclResult_t Team::exchange(const Call& call, const Piece& piece, cudaStream_t stream) {
  const ncclResult_t follows = told(cuda::follow(device_, stream, call.stream));
  if (follows != ncclSuccess) return follows;
  const Part& mine = piece.parts[static_cast<size_t>(shape_.place)];
  void* data = at(call.recv, mine.offset, call);
  bpsComm_t across = nullptr;
  std::optional<CommUse> use;
  {
    const MutexLock lock(mutex_);
    if (ended_) return ncclInvalidUsage;
    use.emplace(across = across_);
  }
  const bpsResult_t issued = bpsAllReduce(data, data, mine.count, static_cast<bpsDataType_t>(call.type),
                                          static_cast<bpsRedOp_t>(call.op), across, stream);
  if (issued != bpsSuccess) logWarn(Subsystem::kColl, "{}", bpsGetLastError(across));
  return ncclOf(issued);
}

ncclResult_t Team::spreadOut(const Call& call, const Piece& piece) {
  if (shape_.size == 1) return ncclSuccess;
  const ncclComm_t inside = this->inside();
  if (inside == nullptr) return ncclInvalidUsage;
  if (piece.even) {
    const Part& mine = piece.parts[static_cast<size_t>(shape_.place)];
    return launched(BPS_REAL(ncclAllGather, at(call.recv, mine.offset, call), at(call.recv, piece.offset, call),
                             mine.count, call.type, inside, call.stream));
  }
  ncclResult_t first = BPS_REAL(ncclGroupStart);
  for (int owner = 0; owner < shape_.owners && first == ncclSuccess; ++owner) {
    const Part& part = piece.parts[static_cast<size_t>(owner)];
    void* data = at(call.recv, part.offset, call);
    if (part.count > 0) first = BPS_REAL(ncclBroadcast, data, data, part.count, call.type, owner, inside, call.stream);
  }
  const ncclResult_t ended = launched(BPS_REAL(ncclGroupEnd));
  return first != ncclSuccess ? first : ended;
}

ncclResult_t Team::finalize(const std::function<ncclResult_t(bool underWay)>& failure) {
  bpsComm_t across = nullptr;
  std::optional<CommUse> use;
  {
    const MutexLock lock(mutex_);
    if (ended_) return ncclInvalidUsage;
    across = across_;
    if (across != nullptr) use.emplace(across);
  }
  const ncclResult_t drained = drain(failure, across);
  return drained == ncclSuccess && across != nullptr ? ncclOf(commFinalize(across)) : drained;
}

// Who would wait for the streams themselves, or let NCCL do so, would wait for the dead for ever.
ncclResult_t Team::drain(const std::function<ncclResult_t(bool underWay)>& failure, bpsComm_t across) {
  const cuda::Scope scope(device_);
  for (Patience patience;; patience.pause()) {
    if (const ncclResult_t wrong = failure(across != nullptr && commIsUnderWay(across)); wrong != ncclSuccess)
      return wrong;
    Result<bool> idle = tail_->idle();
    if (!idle.ok()) return told(idle.error());
    if (std::move(idle).value()) return ncclSuccess;
    const MutexLock lock(mutex_);
    if (ended_) return ncclInvalidUsage;
  }
}

void Team::end(bool abort) {
  bpsComm_t across = nullptr;
  ncclComm_t inside = nullptr;
  {
    const MutexLock lock(mutex_);
    ended_ = true;
    across = std::exchange(across_, nullptr);
    inside = std::exchange(inside_, nullptr);
    // Who is in a call of NCCL's leaves it soon, or only when NCCL is told.
    const auto patience = std::chrono::steady_clock::now() + kLeaving;
    while (issuing_ && std::chrono::steady_clock::now() < patience) left_.waitUntil(mutex_, patience);
  }
  if (abort) return abortBoth(across, inside);
  if (across != nullptr) (void)bpsCommDestroy(across);
  if (inside != nullptr) (void)BPS_REAL(ncclCommDestroy, inside);
}

// NCCL comes first: behind a part that has failed stands a collective of its, which must not spread it. But it may wait
// for its collectives' end, and so for the parts': when it has had time to tell the device, the streams may go on.
void Team::abortBoth(bpsComm_t across, ncclComm_t inside) const {
  std::promise<void> ended;
  std::future<void> end = ended.get_future();
  const auto abortInside = [&] {
    if (inside != nullptr) (void)BPS_REAL(ncclCommAbort, inside);
    ended.set_value();
  };
  std::thread nccl;
  const bool apart = guarded([&] { nccl = std::thread(abortInside); }).ok();
  if (apart) end.wait_for(kTelling);
  if (across != nullptr) (void)bpsCommAbort(across);
  if (apart) nccl.join();
  else abortInside();
  // A non-blocking communicator's abort returns before its kernels have gone.
  const cuda::Scope scope(device_);
  const auto patience = Clock::now() + kLeaving;
  for (Patience pauses; inside != nullptr && tail_ != nullptr && Clock::now() < patience; pauses.pause())
    if (Result<bool> idle = tail_->idle(); !idle.ok() || std::move(idle).value()) return;
}

ncclResult_t Team::error() {
  const MutexLock lock(mutex_);
  // It only looks, and comes back to nobody who would take the mutex.
  ncclResult_t theirs = ncclSuccess;
  if (inside_ == nullptr || BPS_REAL(ncclCommGetAsyncError, inside_, &theirs) != ncclSuccess) return ncclSuccess;
  return theirs == ncclInProgress ? ncclSuccess : theirs;
}

std::string Team::lastError() {
  const MutexLock lock(mutex_);
  return inside_ != nullptr ? BPS_REAL(ncclGetLastError, inside_) : std::string();
}

}  // namespace bps::nccl
