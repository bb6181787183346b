#include "src/interpose/shadow.h"

#include <chrono>
#include <optional>
#include <utility>

#include "src/api/comm_internal.h"
#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/log.h"
#include "src/interpose/api_guard.h"
#include "src/interpose/negotiation/negotiation.h"
#include "src/interpose/negotiation/scratch_memory.h"
#include "src/nccl/backoff.h"

namespace bps::interpose {
Shadow::~Shadow() { end(EndMode::kAbort); }

ncclResult_t Shadow::negotiate() {
  const InternalNcclCall calls;
  {
    const MutexLock lock(mutex_);
    if (ending()) return ncclInvalidUsage;
    negotiating_ = true;
  }
  NegotiatedTerms terms;
  const Status outcome = guarded([&]() -> Status {
    terms = BPS_TRY(negotiateTerms(*this));
    return {};
  });
  if (!outcome.ok() && !ending())
    logWarn(Subsystem::kInit, "first all-reduce of a communicator: {}", outcome.message());
  {
    const MutexLock lock(mutex_);
    negotiating_ = false;
    device_ = terms.device;
    servedComm_ = terms.servedComm;
    gpuGroup_ = std::move(terms.gpuGroup);
    if (servedComm_ != nullptr && buffersAreOnHost() && bpsHostStreamCreate(&hostStream_) != bpsSuccess)
      hostStream_ = nullptr;
  }
  negotiationEnded_.notifyAll();
  minBytes_.store(terms.minBytes, std::memory_order_relaxed);
  negotiated_.store(true, std::memory_order_release);
  return outcome.ok() ? ncclSuccess : static_cast<ncclResult_t>(outcome.code());
}

bool Shadow::serves(const Call& call) const {
  const auto op = static_cast<int>(call.op);
  if (op < 0 || (op >= ncclNumOps && !call.userOp)) return false;
  const size_t least = minBytes_.load(std::memory_order_relaxed);
  return least != kServeNone && call.bytes() > 0 && call.bytes() >= least;
}

std::shared_ptr<LocalGpuGroup> Shadow::gpuGroup() {
  const MutexLock lock(mutex_);
  return gpuGroup_;
}

ncclResult_t Shadow::issue(const Call& call, bool inGroup) {
  const std::shared_ptr<LocalGpuGroup> gpuGroup = this->gpuGroup();
  if (gpuGroup == nullptr || !gpuGroup->supports(call)) return issueToBps(call);
  const ncclResult_t issued = inGroup ? gpuGroup->issueInGroup(call) : gpuGroup->issue(call);
  if (issued != ncclSuccess) return issued;
  bpsCalls_.add(call.bytes());
  gpuGroupCalls_.add(call.bytes());
  return issued;
}

ncclResult_t Shadow::issueToBps(Call call) {
  bpsComm_t servedComm = nullptr;
  std::optional<CommReference> use;
  {
    const MutexLock lock(mutex_);
    if (servedComm_ == nullptr) return ncclInvalidUsage;
    use.emplace(servedComm = servedComm_);
    if (buffersAreOnHost()) call.stream = hostStream_;
  }
  if (!call.userOp) return issueAs(call, static_cast<bpsRedOp_t>(call.op), servedComm);
  const UserOp& user = *call.userOp;
  uint64_t scalar = user.scalar;
  void* where = user.residence == ncclScalarDevice ? user.deviceScalar : &scalar;
  bpsRedOp_t op = bpsSum;
  const bpsResult_t made = bpsRedOpCreatePreMulSum(&op, where, static_cast<bpsDataType_t>(user.type),
                                                   static_cast<bpsScalarResidence_t>(user.residence), servedComm);
  if (made != bpsSuccess) return toNcclResult(made);
  const ncclResult_t issued = issueAs(call, op, servedComm);
  const bpsResult_t freed = bpsRedOpDestroy(op, servedComm);
  return issued != ncclSuccess ? issued : toNcclResult(freed);
}

ncclResult_t Shadow::issueAs(const Call& call, bpsRedOp_t op, bpsComm_t servedComm) {
  const bpsResult_t issued = bpsAllReduce(call.send, call.recv, call.count, static_cast<bpsDataType_t>(call.type), op,
                                          servedComm, call.stream);
  if (issued == bpsSuccess) bpsCalls_.add(call.bytes());
  else if (!ending()) logWarn(Subsystem::kColl, "{}", bpsGetLastError(servedComm));
  return toNcclResult(issued);
}

ncclResult_t Shadow::finishOnHost() {
  if (!buffersAreOnHost()) return ncclSuccess;
  bpsHostStream_t stream = nullptr;
  {
    const MutexLock lock(mutex_);
    stream = hostStream_;
  }
  const ncclResult_t waited = stream == nullptr ? ncclSuccess : toNcclResult(bpsHostStreamSynchronize(stream));
  // If another thread ends the communicator, it waits for the same stream, and a stream reports a failure only once.
  return waited == ncclSuccess && ending() ? ncclInvalidUsage : waited;
}

std::optional<UserOp> Shadow::findOp(ncclRedOp_t op) const {
  const auto found = ops_.find(op);
  return found == ops_.end() ? std::nullopt : std::optional<UserOp>(found->second);
}

ncclResult_t Shadow::finalize() {
  if (const ncclResult_t deferred = deferred_.state(); deferred != ncclSuccess) return deferred;
  if (!nonBlocking() || gpuGroup() != nullptr) return drain();
  const MutexLock lock(mutex_);
  finalized_ = true;
  return servedComm_ != nullptr ? toNcclResult(bpsCommFinalize(servedComm_)) : ncclSuccess;
}

ncclResult_t Shadow::drain() {
  bpsComm_t comm = nullptr;
  std::optional<CommReference> use;
  std::shared_ptr<LocalGpuGroup> gpuGroup;
  {
    const MutexLock lock(mutex_);
    if (servedComm_ == nullptr) return ncclSuccess;
    use.emplace(comm = servedComm_);
    gpuGroup = gpuGroup_;
  }
  Deadline peerDeadline = Deadline::never();
  const auto failure = [&](bool inFlight) {
    if (!inFlight) (void)commFailIfPeerLeft(comm, peerDeadline);
    return ending() ? ncclInvalidUsage : error();
  };
  ncclResult_t outcome = gpuGroup != nullptr ? gpuGroup->finalize(failure) : ncclSuccess;
  if (outcome == ncclSuccess) outcome = toNcclResult(commFinalize(comm));
  if (outcome == ncclSuccess && ending()) outcome = ncclInvalidUsage;  // NCCL must not be called any more
  if (outcome == ncclSuccess) finalized_ = true;
  return outcome;
}

// Returns false after a failure, because failed calls end neither on the device nor on the network without an abort.
bool Shadow::finishCalls() {
  const auto awaited = [this] {
    ncclResult_t state = error();
    for (nccl::Backoff backoff; state == ncclInProgress && !ending(); backoff.pause()) state = error();
    return state;
  };
  ncclResult_t outcome = awaited();
  if (outcome == ncclSuccess && !finalized_) outcome = finalize();
  return (outcome == ncclInProgress ? awaited() : outcome) == ncclSuccess;
}

void Shadow::end(EndMode how) {
  ending_.store(true, std::memory_order_release);
  bpsComm_t comm = nullptr;
  bpsHostStream_t stream = nullptr;
  std::shared_ptr<LocalGpuGroup> gpuGroup;
  // Tells the other ranks about an abort. The other ranks must be told before this thread waits for calls that depend
  // on other ranks, and before the local GPU group ends.
  const auto revokeIfAborting = [&]() BPS_REQUIRES(mutex_) {
    if (servedComm_ != nullptr && how == EndMode::kAbort) (void)bpsCommRevoke(servedComm_, 0);
  };
  {
    const MutexLock lock(mutex_);
    revokeIfAborting();
  }
  const auto until = std::chrono::steady_clock::now() + nccl::kAbortGrace;
  deferred_.close(until);
  {
    const MutexLock lock(mutex_);
    while (negotiating_ && std::chrono::steady_clock::now() < until) negotiationEnded_.waitUntil(mutex_, until);
    revokeIfAborting();
    comm = std::exchange(servedComm_, nullptr);
    stream = std::exchange(hostStream_, nullptr);
    gpuGroup = std::exchange(gpuGroup_, nullptr);
  }
  minBytes_.store(kServeNone, std::memory_order_relaxed);
  if (gpuGroup != nullptr) gpuGroup->end(how == EndMode::kAbort);
  if (comm != nullptr) {
    const bpsResult_t ended = how == EndMode::kAbort ? bpsCommAbort(comm) : bpsCommDestroy(comm);
    if (ended != bpsSuccess) logInfo(Subsystem::kInit, "end of a communicator: {}", bpsGetErrorString(ended));
  }
  if (stream != nullptr) (void)bpsHostStreamDestroy(stream);
}

ncclResult_t Shadow::error() {
  if (const ncclResult_t deferred = deferred_.state(); deferred != ncclSuccess) return deferred;
  const std::shared_ptr<LocalGpuGroup> gpuGroup = this->gpuGroup();
  const ncclResult_t groupError = gpuGroup != nullptr ? gpuGroup->error() : ncclSuccess;
  const MutexLock lock(mutex_);
  bpsResult_t whole = bpsSuccess;
  if (servedComm_ == nullptr || bpsCommGetAsyncError(servedComm_, &whole) != bpsSuccess) return ncclSuccess;
  // The failure of a local GPU group must also reach the ranks outside the group, so the communicator of all ranks is
  // revoked.
  if (groupError != ncclSuccess && whole == bpsSuccess) (void)bpsCommRevoke(servedComm_, 0);
  return groupError != ncclSuccess ? groupError : toNcclResult(whole);
}

std::string Shadow::lastError() {
  const std::shared_ptr<LocalGpuGroup> gpuGroup = this->gpuGroup();
  if (gpuGroup != nullptr && gpuGroup->error() != ncclSuccess) return gpuGroup->lastError();
  const MutexLock lock(mutex_);
  return servedComm_ != nullptr ? bpsGetLastError(servedComm_) : std::string();
}

void Shadow::CallCounter::add(size_t more) {
  calls.fetch_add(1, std::memory_order_relaxed);
  bytes.fetch_add(more, std::memory_order_relaxed);
}

void Shadow::countPassedToNccl(const Call& call) { ncclCalls_.add(call.bytes()); }

std::string Shadow::summary() const {
  return fmt::format(
      "rank {} of {}: {} all-reduces ({} bytes) by bps, of which {} ({} bytes) by NCCL inside machines; "
      "{} ({} bytes) by NCCL",
      rank_, nRanks_, bpsCalls_.calls.load(), bpsCalls_.bytes.load(), gpuGroupCalls_.calls.load(),
      gpuGroupCalls_.bytes.load(), ncclCalls_.calls.load(), ncclCalls_.bytes.load());
}

}  // namespace bps::interpose
