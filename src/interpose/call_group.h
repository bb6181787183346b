// CallGroup: the all-reduces of one NCCL group, or a single all-reduce, which are carried out together.
//
// The first all-reduce of a communicator starts its negotiation, in which the ranks wait for each other. If the
// communicator is non-blocking, the caller does not wait. The caller then gets ncclInProgress, as from NCCL, and a
// worker thread carries out the calls. ncclCommGetAsyncError reports the progress and the outcome (DeferredCalls).
//
// The calling thread and the worker thread share a CallGroup. Only the calling thread may call add() and
// destroyOpLater(), and only before execute() or issue().
#pragma once
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "src/interpose/shadow.h"

namespace bps::interpose {

// Returns the more important of two results. A failure is more important than ncclInProgress, and ncclInProgress is
// more important than success.
ncclResult_t worse(ncclResult_t first, ncclResult_t next);

class CallGroup : public std::enable_shared_from_this<CallGroup> {
 public:
  void add(std::shared_ptr<Shadow> shadow, const Call& call) { calls_.push_back({std::move(shadow), call}); }
  bool uses(ncclRedOp_t op, ncclComm_t comm) const;
  // Destroys a reduction operation of the application after the calls are carried out.
  void destroyOpLater(ncclRedOp_t op, ncclComm_t comm) { released_.emplace_back(op, comm); }

  // True if the negotiation of every communicator in the group is complete.
  bool negotiated() const;
  // The thread that issues the calls: the caller in an open NCCL group, the caller without an open group, or a worker
  // thread.
  enum class Issuer { kCallerInGroup, kCaller, kThread };
  // Issues the calls to bps and to NCCL without waiting for them. Call issue() only if negotiated() is true.
  ncclResult_t issue(Issuer issuer) const;
  // Waits for calls on host buffers and destroys the operations from destroyOpLater(). Call finish() after issue().
  ncclResult_t finish() const;
  // Destroys the operations from destroyOpLater(). If the calls are dropped, nothing else remains to do.
  void destroyDeferredOps() const;
  // Negotiates, then issues and finishes the calls. The calling thread must have no open NCCL group, because the
  // negotiation uses the communicators.
  ncclResult_t execute() const;

 private:
  struct QueuedCall {
    std::shared_ptr<Shadow> shadow;
    Call call;
  };
  struct DeferredWork;
  ncclResult_t negotiate() const;
  ncclResult_t issueInOrder(Issuer issuer) const;
  ncclResult_t issueAndFinish(ncclResult_t negotiated, Issuer issuer) const;
  bool callerMayReturn() const;
  void work(DeferredWork& work) const;
  std::vector<std::shared_ptr<Shadow>> shadows() const;

  std::vector<QueuedCall> calls_;
  std::vector<std::pair<ncclRedOp_t, ncclComm_t>> released_;
};

}  // namespace bps::interpose
