// CallGroup: all-reduces that are carried out together, those of an NCCL group or one alone.
//
// The first all-reduces of a communicator start its negotiation, in which the ranks wait for each other. If NCCL says
// that the communicator is non-blocking, the caller does not wait: it gets ncclInProgress, as from NCCL, and a worker
// thread does the rest. ncclCommGetAsyncError then reports the progress and the outcome (DeferredCalls).
//
// The calling thread and the worker thread share the object. Threads: add() and destroyOpLater() on the thread that
// owns the group, before anything is carried out.
#pragma once
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "src/interpose/shadow.h"

namespace bps::interpose {

// The one of two results to report: a failure first, then ncclInProgress.
ncclResult_t worse(ncclResult_t first, ncclResult_t next);

class CallGroup : public std::enable_shared_from_this<CallGroup> {
 public:
  void add(std::shared_ptr<Shadow> shadow, const Call& call) { calls_.push_back({std::move(shadow), call}); }
  bool uses(ncclRedOp_t op, ncclComm_t comm) const;
  // Destroys the user's operation after the calls are carried out.
  void destroyOpLater(ncclRedOp_t op, ncclComm_t comm) { released_.emplace_back(op, comm); }

  // True: every communicator of the calls is negotiated.
  bool negotiated() const;
  // Which thread issues: the caller inside an open NCCL group, the caller outside of one, or a worker thread.
  enum class Issuer { kCallerInGroup, kCaller, kThread };
  // Issues the calls to bps and to NCCL, after negotiated(). Does not wait.
  ncclResult_t issue(Issuer issuer) const;
  // After issue(): waits for calls on host buffers, and destroys the operations.
  ncclResult_t finish() const;
  // All that remains to do if the calls are dropped.
  void destroyDeferredOps() const;
  // Negotiates, issues and finishes. The thread has no NCCL group open: the negotiation uses the communicators.
  ncclResult_t execute() const;

 private:
  struct QueuedCall {
    std::shared_ptr<Shadow> shadow;
    Call call;
  };
  struct DeferredWork;
  ncclResult_t negotiate() const;
  ncclResult_t issueAndFinish(ncclResult_t negotiated, Issuer issuer) const;
  bool callerMayReturn() const;
  void work(DeferredWork& work) const;
  std::vector<std::shared_ptr<Shadow>> shadows() const;

  std::vector<QueuedCall> calls_;
  std::vector<std::pair<ncclRedOp_t, ncclComm_t>> released_;
};

}  // namespace bps::interpose
