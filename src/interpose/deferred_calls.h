// DeferredCalls: calls on one communicator that a thread carries out after the caller was told ncclInProgress.
//
// Threads: the caller begins; the thread settles, issues and ends; close() and the questions come from any thread.
#pragma once
#include <atomic>
#include <chrono>
#include <vector>

#include "src/base/mutex.h"
#include "src/nccl/types.h"

namespace bps::interpose {

class DeferredCalls {
 public:
  // The caller leaves. False: the communicator is being ended.
  bool begin();
  // The thread is about to call NCCL and bps, which close() has to wait for.
  void issue();
  // Done. Releases the operations that have waited, of `comm`.
  void end(ncclResult_t outcome, ncclComm_t comm);

  // ncclInProgress; then the first failure, if there was one.
  ncclResult_t state();
  bool inProgress() { return state() == ncclInProgress; }
  // An operation that the program does not need any more, but its calls may: freed after them. False: there are none.
  bool destroyOpLater(ncclRedOp_t op);
  // The communicator ends: what is not issued will not be, what is being issued has this long.
  void close(std::chrono::steady_clock::time_point until);

 private:
  enum class Stage { kNone, kNegotiating, kIssuing };
  Mutex mutex_;
  CondVar changed_;
  Stage stage_ BPS_GUARDED_BY(mutex_) = Stage::kNone;
  ncclResult_t outcome_ BPS_GUARDED_BY(mutex_) = ncclSuccess;
  std::vector<ncclRedOp_t> released_ BPS_GUARDED_BY(mutex_);
  bool closed_ BPS_GUARDED_BY(mutex_) = false;
};

}  // namespace bps::interpose
