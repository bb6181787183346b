// DeferredCalls: the calls on one communicator that a worker thread carries out after the caller got ncclInProgress.
//
// Stages: none -> negotiating (begin) -> issuing (issue) -> none (end). After close() the stages no longer change what
// is reported, and no outcome is kept. The shadow of the communicator owns it.
//
// Threads: begin() on the caller's; issue() and end() on the worker thread; the rest on any.
#pragma once
#include <atomic>
#include <chrono>
#include <vector>

#include "src/base/mutex.h"
#include "src/nccl/types.h"

namespace bps::interpose {

class DeferredCalls {
 public:
  // True: the caller is to return ncclInProgress. False: the communicator is ending.
  bool begin();
  // The worker thread is about to call NCCL and bps; close() waits for it from now on.
  void issue();
  // The calls are issued, or have failed. Destroys the operations of `comm` that have waited for them.
  void end(ncclResult_t outcome, ncclComm_t comm);

  // ncclInProgress during the calls, then the first failure of all calls so far.
  ncclResult_t state();
  bool inProgress() { return state() == ncclInProgress; }
  // Destroys an operation after the calls, which may still use it. False: no call is deferred.
  bool destroyOpLater(ncclRedOp_t op);
  // The communicator ends: calls that are not issued never are. Waits for calls being issued, at most until `until`.
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
