#include "src/interpose/deferred_calls.h"

#include <utility>

#include "src/nccl/real_nccl.h"

namespace bps::interpose {

bool DeferredCalls::begin() {
  const MutexLock lock(mutex_);
  if (!closed_) stage_ = Stage::kNegotiating;
  return !closed_;
}

void DeferredCalls::issue() {
  const MutexLock lock(mutex_);
  if (!closed_) stage_ = Stage::kIssuing;
}

void DeferredCalls::end(ncclResult_t outcome, ncclComm_t comm) {
  for (std::vector<ncclRedOp_t> ops;; ops.clear()) {
    {
      const MutexLock lock(mutex_);
      ops.swap(released_);
      if (ops.empty() || closed_) {
        stage_ = Stage::kNone;
        // NCCL itself reports its own calls in progress. After close() NCCL reports every result.
        if (outcome_ == ncclSuccess && outcome != ncclInProgress && !closed_) outcome_ = outcome;
        break;
      }
    }
    for (const ncclRedOp_t op : ops) (void)BPS_REAL(ncclRedOpDestroy, op, comm);
  }
  changed_.notifyAll();
}

ncclResult_t DeferredCalls::state() {
  const MutexLock lock(mutex_);
  return stage_ != Stage::kNone && !closed_ ? ncclInProgress : outcome_;
}

bool DeferredCalls::destroyOpLater(ncclRedOp_t op) {
  const MutexLock lock(mutex_);
  if (stage_ == Stage::kNone || closed_) return false;
  released_.push_back(op);
  return true;
}

void DeferredCalls::close(std::chrono::steady_clock::time_point until) {
  const MutexLock lock(mutex_);
  closed_ = true;
  while (stage_ == Stage::kIssuing && std::chrono::steady_clock::now() < until) changed_.waitUntil(mutex_, until);
}

}  // namespace bps::interpose
