#include "src/nccl/local_gpu_group.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "src/api/comm_internal.h"
#include "src/base/deadline.h"
#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/log.h"
#include "src/cuda/stream_order.h"
#include "src/nccl/backoff.h"
#include "src/nccl/real_nccl.h"

namespace bps::nccl {
namespace {

// Below it, starting NCCL's kernels takes longer than to copy the buffer whole.
constexpr size_t kMinBytes = 256U << 10;
// A call is cut into so many pieces at most, and none smaller than this.
constexpr size_t kMaxPieces = 8, kMinPieceBytes = 4U << 20;

constexpr std::chrono::milliseconds kNcclAbortHeadStart{100};

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLaunchSpinTime{1};

ncclResult_t logAndConvert(const Status& status) {
  if (status.ok()) return ncclSuccess;
  logWarn(Subsystem::kColl, "{}", status.message());
  return toNcclResult(static_cast<bpsResult_t>(status.code()));
}

void* at(const void* buffer, size_t element, const Call& call) {
  return static_cast<uint8_t*>(const_cast<void*>(buffer)) + element * call.elementBytes();
}

}  // namespace

Result<std::unique_ptr<LocalGpuGroup>> LocalGpuGroup::create(const Shape& shape, cuda::Device& device,
                                                             ncclComm_t localComm, bpsComm_t ownersComm,
                                                             std::function<bool()> stop) {
  std::unique_ptr<LocalGpuGroup> gpuGroup(new LocalGpuGroup(shape, device, localComm, ownersComm));
  gpuGroup->shouldStop_ = std::move(stop);
  gpuGroup->groupCallStream_ = BPS_TRY(cuda::OwnedStream::create(device, cuda::OwnedStream::Use::kWaits));
  gpuGroup->completionStream_ = BPS_TRY(cuda::OwnedStream::create(device, cuda::OwnedStream::Use::kWaits));
  while (gpuGroup->isOwner() && gpuGroup->streams_.size() < kMaxPieces)
    gpuGroup->streams_.push_back(BPS_TRY(cuda::OwnedStream::create(device, cuda::OwnedStream::Use::kWaits)));
  return gpuGroup;
}

void LocalGpuGroup::linkToParent(bpsComm_t parent, const std::string& part) {
  const MutexLock lock(mutex_);
  parent_ = parent;
  if (ownersComm_ != nullptr) (void)commLinkToParent(ownersComm_, parent, part);
}

std::string LocalGpuGroup::describe() const {
  const std::string parts = shape_.isOnlyGroup ? "" : fmt::format(", {} of which own a part each", shape_.owners);
  return fmt::format("calls of {} bytes and more by NCCL on {} GPUs{}; {}", kMinBytes, shape_.size, parts,
                     shape_.allowsAnyOrder ? "sums in NCCL's order (BPS_NCCL_LOCAL=any)" : "the same bits as by bps");
}

bool LocalGpuGroup::supports(const Call& call) const {
  // Averages, and operations of the user, whose numbers come after it, are divided or multiplied once.
  if (call.type >= ncclFloat8e4m3 || call.op >= ncclAvg || call.bytes() < kMinBytes) return false;
  // A sum of two is the same in any order (but for which NaN a NaN is); the least and the greatest are not where there
  // are NaNs.
  return shape_.allowsAnyOrder || call.type < ncclFloat16 || call.op == ncclSum;
}

// Nothing may enter but the call and what all ranks know.
std::vector<LocalGpuGroup::Piece> LocalGpuGroup::cut(const Call& call) const {
  const auto owners = static_cast<size_t>(shape_.owners);
  const size_t pieces = std::clamp<size_t>(call.bytes() / kMinPieceBytes, 1, kMaxPieces);
  const size_t most = (call.count / pieces / owners + 1) * owners;
  std::vector<Piece> cut;
  for (size_t offset = 0; offset < call.count; offset += cut.back().count) {
    Piece piece{offset, std::min(most, call.count - offset), {}, false};
    for (size_t owner = 0; owner < owners; ++owner) {
      const size_t begin = piece.count * owner / owners, end = piece.count * (owner + 1) / owners;
      piece.parts.push_back({offset + begin, end - begin});
    }
    piece.hasEqualParts = piece.count % owners == 0 && shape_.owners == shape_.size;
    cut.push_back(std::move(piece));
  }
  return cut;
}

ncclComm_t LocalGpuGroup::localComm() {
  const MutexLock lock(mutex_);
  return localComm_;
}

ncclResult_t LocalGpuGroup::issue(const Call& call) {
  bool anyIssued = false;
  const ncclResult_t issued = issueOutsideGroup(call, anyIssued);
  return failIfPartlyIssued(issued, anyIssued);
}

// NCCL's groups are a thread's: another thread is in none. It may have another default stream than the caller, so it is
// given one that is the same for both.
ncclResult_t LocalGpuGroup::issueInGroup(const Call& call) {
  Call groupCall = call;
  groupCall.stream = groupCallStream_->get();
  ncclResult_t first = logAndConvert(cuda::orderAfter(device_, groupCall.stream, call.stream));
  if (first != ncclSuccess) return first;
  bool anyIssued = false;
  std::thread([&] { first = issueOutsideGroup(groupCall, anyIssued); }).join();
  if (first == ncclSuccess) first = logAndConvert(cuda::orderAfter(device_, call.stream, groupCall.stream));
  return failIfPartlyIssued(first, anyIssued);
}

ncclResult_t LocalGpuGroup::issueOutsideGroup(const Call& call, bool& anyIssued) {
  {
    const MutexLock lock(mutex_);
    if (ended_ || partlyIssued_) return ncclInvalidUsage;
    issuing_ = true;
  }
  ncclResult_t issued = issuePieces(call, anyIssued);
  // Also of a call of which only a part is in its stream.
  const ncclResult_t followed = logAndConvert(cuda::orderAfter(device_, completionStream_->get(), call.stream));
  if (issued == ncclSuccess) issued = followed;
  {
    const MutexLock lock(mutex_);
    issuing_ = false;
  }
  issuingEnded_.notifyAll();
  return issued;
}

ncclResult_t LocalGpuGroup::failIfPartlyIssued(ncclResult_t issued, bool anyIssued) {
  if (issued == ncclSuccess || !anyIssued) return issued;
  const MutexLock lock(mutex_);
  partlyIssued_ = true;
  // Where the part has failed, all hear of that.
  bpsResult_t part = bpsSuccess;
  if (ownersComm_ != nullptr) (void)bpsCommGetAsyncError(ownersComm_, &part);
  if (ended_ || parent_ == nullptr || part != bpsSuccess) return issued;
  (void)commFail(parent_, static_cast<bpsResult_t>(issued),
                 fmt::format("an all-reduce was issued in part: {}", BPS_REAL(ncclGetErrorString, issued)));
  return issued;
}

ncclResult_t LocalGpuGroup::issuePieces(const Call& call, bool& anyIssued) {
  if (shape_.isOnlyGroup) {
    const ncclComm_t localComm = this->localComm();
    if (localComm == nullptr) return ncclInvalidUsage;
    anyIssued = true;
    return waitLaunched(
        BPS_REAL(ncclAllReduce, call.send, call.recv, call.count, call.type, call.op, localComm, call.stream));
  }
  const std::vector<Piece> pieces = cut(call);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (const ncclResult_t done = reduceToOwners(call, pieces[i]); done != ncclSuccess) return done;
    anyIssued = anyIssued || shape_.size > 1;
    if (!isOwner()) continue;
    const ncclResult_t done = exchange(call, pieces[i], streams_[i]->get());
    if (done != ncclSuccess) return done;
    anyIssued = true;
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (isOwner())
      if (const ncclResult_t done = logAndConvert(cuda::orderAfter(device_, call.stream, streams_[i]->get()));
          done != ncclSuccess)
        return done;
    if (const ncclResult_t done = gatherFromOwners(call, pieces[i]); done != ncclSuccess) return done;
  }
  return ncclSuccess;
}

// What NCCL was asked for is in its stream, and NCCL may be asked for more: a non-blocking communicator says so later.
ncclResult_t LocalGpuGroup::waitLaunched(ncclResult_t asked) {
  for (const auto start = Clock::now(); asked == ncclInProgress;) {
    if (shouldStop_ && shouldStop_()) return ncclRemoteError;
    {
      const MutexLock lock(mutex_);
      if (localComm_ == nullptr) return ncclInvalidUsage;
      const ncclResult_t looked = BPS_REAL(ncclCommGetAsyncError, localComm_, &asked);
      if (looked != ncclSuccess) return looked;
    }
    if (Clock::now() - start < kLaunchSpinTime) std::this_thread::yield();
    else std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return asked;
}

// Every owner's part of the team's sum comes into its receive buffer.
ncclResult_t LocalGpuGroup::reduceToOwners(const Call& call, const Piece& piece) {
  const void* send = at(call.send, piece.offset, call);
  if (shape_.size == 1) {
    // The team's sum is the contribution.
    if (call.send == call.recv) return ncclSuccess;
    const cuda::Api& api = device_.api();
    Result<cuda::Context> context = cuda::contextOf(device_, call.stream);
    if (!context.ok()) return logAndConvert(context.error());
    const cuda::ScopedContext scope(api, std::move(context).value());
    return logAndConvert(cuda::check(
        api,
        api.memcpyAsync(reinterpret_cast<cuda::Address>(at(call.recv, piece.offset, call)),
                        reinterpret_cast<cuda::Address>(send), piece.count * call.elementBytes(), call.stream),
        "cuMemcpyAsync"));
  }
  const ncclComm_t localComm = this->localComm();
  if (localComm == nullptr) return ncclInvalidUsage;
  if (piece.hasEqualParts) {
    const OwnerPart& mine = piece.parts[static_cast<size_t>(shape_.groupRank)];
    return waitLaunched(BPS_REAL(ncclReduceScatter, send, at(call.recv, mine.offset, call), mine.count, call.type,
                                 call.op, localComm, call.stream));
  }
  ncclResult_t first = BPS_REAL(ncclGroupStart);
  for (int owner = 0; owner < shape_.owners && first == ncclSuccess; ++owner) {
    const OwnerPart& part = piece.parts[static_cast<size_t>(owner)];
    if (part.count > 0)
      first = BPS_REAL(ncclReduce, at(call.send, part.offset, call), at(call.recv, part.offset, call), part.count,
                       call.type, call.op, owner, localComm, call.stream);
  }
  const ncclResult_t ended = waitLaunched(BPS_REAL(ncclGroupEnd));
  return first != ncclSuccess ? first : ended;
}

// bps all-reduces this owner's part, on a stream beside the caller's.
ncclResult_t LocalGpuGroup::exchange(const Call& call, const Piece& piece, cudaStream_t stream) {
  const ncclResult_t follows = logAndConvert(cuda::orderAfter(device_, stream, call.stream));
  if (follows != ncclSuccess) return follows;
  const OwnerPart& mine = piece.parts[static_cast<size_t>(shape_.groupRank)];
  void* data = at(call.recv, mine.offset, call);
  bpsComm_t ownersComm = nullptr;
  std::optional<CommReference> use;
  {
    const MutexLock lock(mutex_);
    if (ended_) return ncclInvalidUsage;
    use.emplace(ownersComm = ownersComm_);
  }
  const bpsResult_t issued = bpsAllReduce(data, data, mine.count, static_cast<bpsDataType_t>(call.type),
                                          static_cast<bpsRedOp_t>(call.op), ownersComm, stream);
  if (issued != bpsSuccess) logWarn(Subsystem::kColl, "{}", bpsGetLastError(ownersComm));
  return toNcclResult(issued);
}

ncclResult_t LocalGpuGroup::gatherFromOwners(const Call& call, const Piece& piece) {
  if (shape_.size == 1) return ncclSuccess;
  const ncclComm_t localComm = this->localComm();
  if (localComm == nullptr) return ncclInvalidUsage;
  if (piece.hasEqualParts) {
    const OwnerPart& mine = piece.parts[static_cast<size_t>(shape_.groupRank)];
    return waitLaunched(BPS_REAL(ncclAllGather, at(call.recv, mine.offset, call), at(call.recv, piece.offset, call),
                                 mine.count, call.type, localComm, call.stream));
  }
  ncclResult_t first = BPS_REAL(ncclGroupStart);
  for (int owner = 0; owner < shape_.owners && first == ncclSuccess; ++owner) {
    const OwnerPart& part = piece.parts[static_cast<size_t>(owner)];
    void* data = at(call.recv, part.offset, call);
    if (part.count > 0)
      first = BPS_REAL(ncclBroadcast, data, data, part.count, call.type, owner, localComm, call.stream);
  }
  const ncclResult_t ended = waitLaunched(BPS_REAL(ncclGroupEnd));
  return first != ncclSuccess ? first : ended;
}

ncclResult_t LocalGpuGroup::finalize(const std::function<ncclResult_t(bool inFlight)>& failure) {
  bpsComm_t ownersComm = nullptr;
  std::optional<CommReference> use;
  {
    const MutexLock lock(mutex_);
    if (ended_) return ncclInvalidUsage;
    ownersComm = ownersComm_;
    if (ownersComm != nullptr) use.emplace(ownersComm);
  }
  const ncclResult_t drained = drain(failure, ownersComm);
  return drained == ncclSuccess && ownersComm != nullptr ? toNcclResult(commFinalize(ownersComm)) : drained;
}

// Who would wait for the streams themselves, or let NCCL do so, would wait for the dead for ever.
ncclResult_t LocalGpuGroup::drain(const std::function<ncclResult_t(bool inFlight)>& failure, bpsComm_t ownersComm) {
  const cuda::ScopedContext scope(device_);
  for (Backoff patience;; patience.pause()) {
    if (const ncclResult_t wrong = failure(ownersComm != nullptr && commHasCallsInFlight(ownersComm));
        wrong != ncclSuccess)
      return wrong;
    Result<bool> idle = completionStream_->idle();
    if (!idle.ok()) return logAndConvert(idle.error());
    if (std::move(idle).value()) return ncclSuccess;
    const MutexLock lock(mutex_);
    if (ended_) return ncclInvalidUsage;
  }
}

void LocalGpuGroup::end(bool abort) {
  bpsComm_t ownersComm = nullptr;
  ncclComm_t localComm = nullptr;
  {
    const MutexLock lock(mutex_);
    ended_ = true;
    ownersComm = std::exchange(ownersComm_, nullptr);
    localComm = std::exchange(localComm_, nullptr);
    // Who is in a call of NCCL's leaves it soon, or only when NCCL is told.
    const auto patience = std::chrono::steady_clock::now() + kAbortGrace;
    while (issuing_ && std::chrono::steady_clock::now() < patience) issuingEnded_.waitUntil(mutex_, patience);
  }
  if (abort) return abortComms(ownersComm, localComm);
  if (ownersComm != nullptr) (void)bpsCommDestroy(ownersComm);
  if (localComm != nullptr) (void)BPS_REAL(ncclCommDestroy, localComm);
}

// NCCL comes first: behind a part that has failed stands a collective of its, which must not spread it. But it may wait
// for its collectives' end, and so for the parts': when it has had time to tell the device, the streams may go on.
void LocalGpuGroup::abortComms(bpsComm_t ownersComm, ncclComm_t localComm) const {
  std::promise<void> ended;
  std::future<void> end = ended.get_future();
  const auto abortLocalComm = [&] {
    if (localComm != nullptr) (void)BPS_REAL(ncclCommAbort, localComm);
    ended.set_value();
  };
  std::thread nccl;
  const bool apart = guarded([&] { nccl = std::thread(abortLocalComm); }).ok();
  if (apart) end.wait_for(kNcclAbortHeadStart);
  if (ownersComm != nullptr) (void)bpsCommAbort(ownersComm);
  if (apart) nccl.join();
  else abortLocalComm();
  // A non-blocking communicator's abort returns before its kernels have gone.
  const cuda::ScopedContext scope(device_);
  const auto patience = Clock::now() + kAbortGrace;
  for (Backoff pauses; localComm != nullptr && completionStream_ != nullptr && Clock::now() < patience; pauses.pause())
    if (Result<bool> idle = completionStream_->idle(); !idle.ok() || std::move(idle).value()) return;
}

ncclResult_t LocalGpuGroup::error() {
  const MutexLock lock(mutex_);
  // It only looks, and comes back to nobody who would take the mutex.
  ncclResult_t theirs = ncclSuccess;
  if (localComm_ == nullptr || BPS_REAL(ncclCommGetAsyncError, localComm_, &theirs) != ncclSuccess) return ncclSuccess;
  return theirs == ncclInProgress ? ncclSuccess : theirs;
}

std::string LocalGpuGroup::lastError() {
  const MutexLock lock(mutex_);
  return localComm_ != nullptr ? BPS_REAL(ncclGetLastError, localComm_) : std::string();
}

}  // namespace bps::nccl
