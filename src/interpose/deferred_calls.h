// DeferredCalls: the state of the calls on one communicator that a worker thread carries out after the caller has
// received ncclInProgress.
//
// begin() changes the stage from none to negotiating, issue() changes it to issuing, and end() changes it back to none.
// After close(), state() no longer depends on the stage, and no new outcome is stored. The DeferredCalls object belongs
// to the shadow of its communicator.
//
// The caller's thread calls begin(), and the worker thread calls issue() and end(). Any thread may call the other
// functions.
#pragma once
#include <atomic>
#include <chrono>
#include <vector>

#include "src/base/mutex.h"
#include "src/nccl/types.h"

namespace bps::interpose {

class DeferredCalls {
 public:
  // If begin() returns true, the caller must return ncclInProgress to the application. False means that the
  // communicator is ending.
  bool begin();
  // Call issue() before the worker thread calls NCCL and bps. From then on close() waits for the worker thread.
  void issue();
  // Call end() after the calls are issued or have failed. end() destroys the operations of `comm` that were passed to
  // destroyOpLater().
  void end(ncclResult_t outcome, ncclComm_t comm);

  // Returns ncclInProgress while calls are deferred. After that, returns the first failure of all deferred calls so
  // far.
  ncclResult_t state();
  bool inProgress() { return state() == ncclInProgress; }
  // Destroys an operation after the deferred calls, which may still use the operation. Returns false if no call is
  // deferred.
  bool destroyOpLater(ncclRedOp_t op);
  // Call close() when the communicator ends. close() waits at most until `until` for calls that the worker thread is
  // issuing.
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
