#include "src/interpose/shadow.h"

#include <array>
#include <chrono>
#include <utility>

#include "src/base/deadline.h"
#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/log.h"
#include "src/interpose/agreement/agreement.h"
#include "src/interpose/agreement/device.h"

namespace bps::interpose {
namespace {

// NCCL before 2.30 has no word for a time-out.
ncclResult_t ncclOf(bpsResult_t result) {
  return result == bpsTimeout ? ncclRemoteError : static_cast<ncclResult_t>(result);
}

constexpr std::array<size_t, ncclNumTypes> kElementBytes{1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

// How long an abort waits for a first call to notice it before it lets NCCL end what that call waits for.
constexpr std::chrono::milliseconds kLeaving{500};

}  // namespace

size_t Call::bytes() const {
  const auto index = static_cast<size_t>(type);
  return index < kElementBytes.size() && count <= SIZE_MAX / 8 ? count * kElementBytes[index] : 0;
}

Shadow::~Shadow() { end(Ending::kAbort); }

ncclResult_t Shadow::settle() {
  {
    const MutexLock lock(mutex_);
    if (ending()) return ncclInvalidUsage;
    settling_ = true;
  }
  Terms terms;
  const Status outcome = guarded([&]() -> Status {
    terms = BPS_TRY(agree(*this));
    return {};
  });
  if (!outcome.ok() && !ending())
    logWarn(Subsystem::kInit, "first all-reduce of a communicator: {}", outcome.message());
  {
    const MutexLock lock(mutex_);
    settling_ = false;
    served_ = terms.served;
    if (served_ != nullptr && buffersOnHost() && bpsHostStreamCreate(&hostStream_) != bpsSuccess) hostStream_ = nullptr;
  }
  left_.notifyAll();
  leastBytes_.store(terms.leastBytes, std::memory_order_relaxed);
  settled_.store(true, std::memory_order_release);
  return outcome.ok() ? ncclSuccess : static_cast<ncclResult_t>(outcome.code());
}

bool Shadow::serves(const Call& call) const {
  const auto op = static_cast<int>(call.op);
  if (op < 0 || (op >= ncclNumOps && !call.userOp)) return false;
  const size_t least = leastBytes_.load(std::memory_order_relaxed);
  return least != kNever && call.bytes() > 0 && call.bytes() >= least;
}

ncclResult_t Shadow::issue(const Call& call) {
  const MutexLock lock(mutex_);
  if (served_ == nullptr) return ncclInvalidUsage;
  if (!call.userOp) return issueAs(call, static_cast<bpsRedOp_t>(call.op));
  const UserOp& user = *call.userOp;
  uint64_t scalar = user.scalar;
  void* where = user.residence == ncclScalarDevice ? user.deviceScalar : &scalar;
  bpsRedOp_t op = bpsSum;
  const bpsResult_t made = bpsRedOpCreatePreMulSum(&op, where, static_cast<bpsDataType_t>(user.type),
                                                   static_cast<bpsScalarResidence_t>(user.residence), served_);
  if (made != bpsSuccess) return ncclOf(made);
  const ncclResult_t issued = issueAs(call, op);
  const bpsResult_t freed = bpsRedOpDestroy(op, served_);
  return issued != ncclSuccess ? issued : ncclOf(freed);
}

ncclResult_t Shadow::issueAs(const Call& call, bpsRedOp_t op) {
  const cudaStream_t stream = buffersOnHost() ? hostStream_ : call.stream;
  const bpsResult_t issued =
      bpsAllReduce(call.send, call.recv, call.count, static_cast<bpsDataType_t>(call.type), op, served_, stream);
  if (issued == bpsSuccess) ours_.add(call.bytes());
  else if (!ending()) logWarn(Subsystem::kColl, "{}", bpsGetLastError(served_));
  return ncclOf(issued);
}

ncclResult_t Shadow::finishOnHost() {
  if (!buffersOnHost()) return ncclSuccess;
  bpsHostStream_t stream = nullptr;
  {
    const MutexLock lock(mutex_);
    stream = hostStream_;
  }
  const ncclResult_t waited = stream == nullptr ? ncclSuccess : ncclOf(bpsHostStreamSynchronize(stream));
  // Who ends the communicator waits for the stream too, and a stream tells of a failure only once.
  return waited == ncclSuccess && ending() ? ncclInvalidUsage : waited;
}

std::optional<UserOp> Shadow::findOp(ncclRedOp_t op) const {
  const auto found = ops_.find(op);
  return found == ops_.end() ? std::nullopt : std::optional<UserOp>(found->second);
}

ncclResult_t Shadow::finalize() {
  bpsComm_t comm = nullptr;
  {
    const MutexLock lock(mutex_);
    if (served_ == nullptr) return ncclSuccess;
    comm = served_;
    ++finalizing_;
  }
  const ncclResult_t outcome = ncclOf(bpsCommFinalize(comm));
  {
    const MutexLock lock(mutex_);
    --finalizing_;
  }
  left_.notifyAll();
  return outcome;
}

void Shadow::end(Ending how) {
  ending_.store(true, std::memory_order_release);
  bpsComm_t comm = nullptr;
  bpsHostStream_t stream = nullptr;
  {
    const MutexLock lock(mutex_);
    const auto patience = std::chrono::steady_clock::now() + kLeaving;
    while (settling_ && std::chrono::steady_clock::now() < patience) left_.waitUntil(mutex_, patience);
    comm = std::exchange(served_, nullptr);
    stream = std::exchange(hostStream_, nullptr);
    // Another thread may be in finalize(), or about to be: an abort makes it return, and its handle is freed after
    // that.
    if (comm != nullptr && finalizing_ > 0 && how == Ending::kAbort) (void)bpsCommRevoke(comm, 0);
    while (finalizing_ > 0) left_.waitUntil(mutex_, Deadline::never().at());
  }
  leastBytes_.store(kNever, std::memory_order_relaxed);
  if (comm != nullptr) {
    const bpsResult_t ended = how == Ending::kAbort ? bpsCommAbort(comm) : bpsCommDestroy(comm);
    if (ended != bpsSuccess) logInfo(Subsystem::kInit, "end of a communicator: {}", bpsGetErrorString(ended));
  }
  if (stream != nullptr) (void)bpsHostStreamDestroy(stream);
}

ncclResult_t Shadow::error() {
  const MutexLock lock(mutex_);
  bpsResult_t result = bpsSuccess;
  if (served_ == nullptr || bpsCommGetAsyncError(served_, &result) != bpsSuccess) return ncclSuccess;
  return ncclOf(result);
}

std::string Shadow::lastError() {
  const MutexLock lock(mutex_);
  return served_ == nullptr ? std::string() : bpsGetLastError(served_);
}

void Shadow::Path::add(size_t more) {
  calls.fetch_add(1, std::memory_order_relaxed);
  bytes.fetch_add(more, std::memory_order_relaxed);
}

void Shadow::countPassed(const Call& call) { theirs_.add(call.bytes()); }

std::string Shadow::summary() const {
  return fmt::format("rank {} of {}: {} all-reduces ({} bytes) by bps, {} ({} bytes) by NCCL", rank_, nRanks_,
                     ours_.calls.load(), ours_.bytes.load(), theirs_.calls.load(), theirs_.bytes.load());
}

}  // namespace bps::interpose
