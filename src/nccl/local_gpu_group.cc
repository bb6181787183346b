#include "src/nccl/local_gpu_group.h"

#include <chrono>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "src/api/comm_internal.h"
#include "src/base/format.h"
#include "src/base/log.h"
#include "src/cuda/stream_order.h"
#include "src/nccl/backoff.h"
#include "src/nccl/real_nccl.h"

namespace bps::nccl {
namespace {

// NCCL's abort runs alone for this time before bps lets streams continue.
constexpr std::chrono::milliseconds kNcclAbortHeadStart{100};
// waitLaunched() yields the CPU for this time before it sleeps between polls.
constexpr std::chrono::milliseconds kLaunchSpinTime{1};

using Clock = std::chrono::steady_clock;

}  // namespace

Result<std::unique_ptr<LocalGpuGroup>> LocalGpuGroup::create(const Shape& shape, cuda::Device& device,
                                                             ncclComm_t localComm, bpsComm_t ownersComm,
                                                             std::function<bool()> stop) {
  std::unique_ptr<LocalGpuGroup> gpuGroup(new LocalGpuGroup(shape, device, localComm, ownersComm));
  gpuGroup->shouldStop_ = std::move(stop);
  gpuGroup->groupCallStream_ = BPS_TRY(cuda::OwnedStream::create(device, cuda::OwnedStream::Use::kWaits));
  gpuGroup->completionStream_ = BPS_TRY(cuda::OwnedStream::create(device, cuda::OwnedStream::Use::kWaits));
  if (shape.order.addsInRankOrder && shape.size > 1)
    gpuGroup->rankOrder_ = BPS_TRY(RankOrderReduce::create(device, shape.groupRank, shape.places));
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
  const char* order = shape_.order.allowsAnyOrder    ? "sums in NCCL's order (BPS_NCCL_LOCAL=any)"
                      : shape_.order.addsInRankOrder ? "sums in rank order (BPS_NCCL_LOCAL=exact)"
                      : shape_.order.hasOnlyPairs    ? "only integers, and sums of floats of two ranks"
                                                     : "only integers";
  return fmt::format("calls of {} bytes and more by NCCL on {} GPUs{}; {}{}", kMinGroupBytes, shape_.size, parts, order,
                     shape_.noRankOrder.empty() ? "" : fmt::format(" ({})", shape_.noRankOrder));
}

LocalGpuGroup::~LocalGpuGroup() {
  end(true);
  if (rankOrder_ != nullptr && completionStream_ != nullptr) {
    const cuda::ScopedContext scope(device_);
    if (Result<bool> idle = completionStream_->idle(); !idle.ok() || !std::move(idle).value()) rankOrder_->keepMemory();
  }
}

ncclResult_t LocalGpuGroup::issue(const Call& call) {
  bool anyIssued = false;
  const ncclResult_t issued = issueOutsideGroup(call, anyIssued);
  return failIfPartlyIssued(issued, anyIssued);
}

// An NCCL group belongs to the thread that opened it, so another thread issues the call. The other
// thread's default stream may differ from the caller's, so the call runs on groupCallStream_.
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
  // The completion stream must also follow a call of which only some pieces were issued.
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
  // If the owners' communicator has failed, its failure has already failed the parent.
  bpsResult_t part = bpsSuccess;
  if (ownersComm_ != nullptr) (void)bpsCommGetAsyncError(ownersComm_, &part);
  if (ended_ || parent_ == nullptr || part != bpsSuccess) return issued;
  (void)commFail(parent_, static_cast<bpsResult_t>(issued),
                 fmt::format("an all-reduce was issued in part: {}", BPS_REAL(ncclGetErrorString, issued)));
  return issued;
}

ncclResult_t LocalGpuGroup::issuePieces(const Call& call, bool& anyIssued) {
  const Combiner combiner = combinerOf(call, shape_.order);
  if (shape_.isOnlyGroup && combiner == Combiner::kNccl) {
    const ncclComm_t localComm = this->localComm();
    if (localComm == nullptr) return ncclInvalidUsage;
    anyIssued = true;
    return waitLaunched(
        BPS_REAL(ncclAllReduce, call.send, call.recv, call.count, call.type, call.op, localComm, call.stream));
  }
  const std::vector<Piece> pieces = cutCall(call, shape_.owners, shape_.size);
  for (size_t i = 0; i < pieces.size(); ++i) {
    anyIssued = anyIssued || combiner == Combiner::kRankOrder;  // several steps, of which one may fail
    if (const ncclResult_t done = reduceToOwners(call, pieces[i], combiner); done != ncclSuccess) return done;
    anyIssued = anyIssued || shape_.size > 1;
    if (!isOwner()) continue;
    const ncclResult_t done = exchange(call, pieces[i], streams_[i]->get());
    if (done != ncclSuccess) return done;
    anyIssued = true;
  }
  for (size_t i = 0; i < pieces.size(); ++i) {
    ncclResult_t done = ncclSuccess;
    if (isOwner()) done = logAndConvert(cuda::orderAfter(device_, call.stream, streams_[i]->get()));
    if (done == ncclSuccess) done = gatherFromOwners(call, pieces[i]);
    if (done != ncclSuccess) return done;
  }
  return ncclSuccess;
}

// Waits until NCCL's non-blocking communicator has put the calls into their streams. Until then the
// communicator refuses further calls.
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

ncclResult_t LocalGpuGroup::inNcclGroup(const RankOrderReduce::NcclCalls& calls) {
  const ncclComm_t localComm = this->localComm();
  if (localComm == nullptr) return ncclInvalidUsage;
  ncclResult_t first = BPS_REAL(ncclGroupStart);
  if (first == ncclSuccess) first = calls(localComm);
  const ncclResult_t ended = waitLaunched(BPS_REAL(ncclGroupEnd));
  return first != ncclSuccess ? first : ended;
}

// Issues one collective of NCCL for the part of each owner, all in one NCCL group.
ncclResult_t LocalGpuGroup::forEachOwner(const Piece& piece, const Collective& collective) {
  return inNcclGroup([&](ncclComm_t localComm) {
    ncclResult_t first = ncclSuccess;
    for (int owner = 0; owner < shape_.owners && first == ncclSuccess; ++owner) {
      const OwnerPart& part = piece.parts[static_cast<size_t>(owner)];
      if (part.count > 0) first = collective(owner, part, localComm);
    }
    return first;
  });
}

// Writes the group's sum of each owner's part into the receive buffer of that owner.
ncclResult_t LocalGpuGroup::reduceToOwners(const Call& call, const Piece& piece, Combiner combiner) {
  if (shape_.size == 1) return copyToReceiveBuffer(call, piece);
  if (combiner == Combiner::kRankOrder)
    return rankOrder_->reduce(call, piece,
                              [this](const RankOrderReduce::NcclCalls& calls) { return inNcclGroup(calls); });
  if (!piece.hasEqualParts)
    return forEachOwner(piece, [&](int owner, const OwnerPart& part, ncclComm_t localComm) {
      return BPS_REAL(ncclReduce, call.at(call.send, part.offset), call.at(call.recv, part.offset), part.count,
                      call.type, call.op, owner, localComm, call.stream);
    });
  const ncclComm_t localComm = this->localComm();
  if (localComm == nullptr) return ncclInvalidUsage;
  const OwnerPart& mine = piece.parts[static_cast<size_t>(shape_.groupRank)];
  return waitLaunched(BPS_REAL(ncclReduceScatter, call.at(call.send, piece.offset), call.at(call.recv, mine.offset),
                               mine.count, call.type, call.op, localComm, call.stream));
}

// In a group of one rank, the sum of the group is the contribution of that rank.
ncclResult_t LocalGpuGroup::copyToReceiveBuffer(const Call& call, const Piece& piece) const {
  if (call.send == call.recv) return ncclSuccess;
  const cuda::Api& api = device_.api();
  Result<cuda::Context> context = cuda::contextOf(device_, call.stream);
  if (!context.ok()) return logAndConvert(context.error());
  const cuda::ScopedContext scope(api, std::move(context).value());
  const auto to = reinterpret_cast<cuda::Address>(call.at(call.recv, piece.offset));
  const auto from = reinterpret_cast<cuda::Address>(call.at(call.send, piece.offset));
  const int copied = api.memcpyAsync(to, from, piece.count * call.elementBytes(), call.stream);
  return logAndConvert(cuda::check(api, copied, "cuMemcpyAsync"));
}

// All-reduces this rank's part with bps, on a stream that is not the caller's.
ncclResult_t LocalGpuGroup::exchange(const Call& call, const Piece& piece, cudaStream_t stream) {
  const ncclResult_t follows = logAndConvert(cuda::orderAfter(device_, stream, call.stream));
  if (follows != ncclSuccess) return follows;
  const OwnerPart& mine = piece.parts[static_cast<size_t>(shape_.groupRank)];
  void* data = call.at(call.recv, mine.offset);
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
  if (!piece.hasEqualParts)
    return forEachOwner(piece, [&](int owner, const OwnerPart& part, ncclComm_t localComm) {
      void* data = call.at(call.recv, part.offset);
      return BPS_REAL(ncclBroadcast, data, data, part.count, call.movedType(), owner, localComm, call.stream);
    });
  const ncclComm_t localComm = this->localComm();
  if (localComm == nullptr) return ncclInvalidUsage;
  const OwnerPart& mine = piece.parts[static_cast<size_t>(shape_.groupRank)];
  return waitLaunched(BPS_REAL(ncclAllGather, call.at(call.recv, mine.offset), call.at(call.recv, piece.offset),
                               mine.count, call.movedType(), localComm, call.stream));
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

// Polls the stream. A blocking wait of CUDA or NCCL would never end after the death of a rank.
ncclResult_t LocalGpuGroup::drain(const std::function<ncclResult_t(bool inFlight)>& failure, bpsComm_t ownersComm) {
  const cuda::ScopedContext scope(device_);
  for (Backoff backoff;; backoff.pause()) {
    const ncclResult_t state = failure(ownersComm != nullptr && commHasCallsInFlight(ownersComm));
    if (state != ncclSuccess) return state;
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
    // A thread that is inside NCCL returns soon, or only after NCCL's communicator is aborted.
    const auto until = Clock::now() + kAbortGrace;
    while (issuing_ && Clock::now() < until) issuingEnded_.waitUntil(mutex_, until);
  }
  if (abort) return abortComms(ownersComm, localComm);
  if (ownersComm != nullptr) (void)bpsCommDestroy(ownersComm);
  if (localComm != nullptr) (void)BPS_REAL(ncclCommDestroy, localComm);
}

// NCCL's abort starts first, because a collective of NCCL must not spread the failed part that it
// follows. But NCCL's abort may wait for its collectives, and these collectives wait for the parts.
// bps therefore lets the streams continue after kNcclAbortHeadStart. By then NCCL has told the
// device to stop.
void LocalGpuGroup::abortComms(bpsComm_t ownersComm, ncclComm_t localComm) const {
  // NCCL's abort runs on a separate thread, or in get() if no thread can be started.
  std::future<void> nccl = std::async(std::launch::async | std::launch::deferred, [localComm] {
    if (localComm != nullptr) (void)BPS_REAL(ncclCommAbort, localComm);
  });
  nccl.wait_for(kNcclAbortHeadStart);
  if (ownersComm != nullptr) (void)bpsCommAbort(ownersComm);
  nccl.get();
  // The abort of a non-blocking NCCL communicator returns before its kernels have ended.
  const cuda::ScopedContext scope(device_);
  const auto until = Clock::now() + kAbortGrace;
  for (Backoff backoff; localComm != nullptr && completionStream_ != nullptr && Clock::now() < until; backoff.pause())
    if (Result<bool> idle = completionStream_->idle(); !idle.ok() || std::move(idle).value()) return;
}

ncclResult_t LocalGpuGroup::error() {
  const MutexLock lock(mutex_);
  // ncclCommGetAsyncError does not wait, and does not call back into code that locks mutex_.
  ncclResult_t theirs = ncclSuccess;
  if (localComm_ == nullptr || BPS_REAL(ncclCommGetAsyncError, localComm_, &theirs) != ncclSuccess) return ncclSuccess;
  return theirs == ncclInProgress ? ncclSuccess : theirs;
}

std::string LocalGpuGroup::lastError() {
  const MutexLock lock(mutex_);
  return localComm_ != nullptr ? BPS_REAL(ncclGetLastError, localComm_) : std::string();
}

}  // namespace bps::nccl
