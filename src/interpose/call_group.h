// CallGroup: the all-reduces that are carried out together, those of a group or one alone.
//
// A communicator's first ones settle who serves it, and the ranks wait for each other then. Where NCCL says that the
// communicator is non-blocking the caller does not: he is told ncclInProgress, as NCCL would tell him, and a thread
// does the rest. Until that has ended ncclCommGetAsyncError says so too, and then what came of it (DeferredCalls).
#pragma once
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "src/interpose/shadow.h"

namespace bps::interpose {

// Of two results the one to be told: a failure, else that something is under way.
ncclResult_t worse(ncclResult_t first, ncclResult_t next);

// Shared with the thread that may have to do the rest.
class CallGroup : public std::enable_shared_from_this<CallGroup> {
 public:
  void add(std::shared_ptr<Shadow> shadow, const Call& call) { calls_.push_back({std::move(shadow), call}); }
  bool uses(ncclRedOp_t op, ncclComm_t comm) const;
  // An operation made by the user that goes when the calls are out.
  void destroyOpLater(ncclRedOp_t op, ncclComm_t comm) { released_.emplace_back(op, comm); }

  // Of every call it is known whose it is.
  bool negotiated() const;
  // By whom calls are given out: the caller, who has a group of NCCL's open or none, or a thread in his place.
  enum class Issuer { kCallerInGroup, kCaller, kThread };
  // Gives them to bps and to NCCL; only when settled. Does not wait.
  ncclResult_t issue(Issuer issuer) const;
  // After that: waits for what only we can wait for, and releases.
  ncclResult_t finish() const;
  // All that is left to do when the calls are not to be carried out.
  void destroyDeferredOps() const;
  // All of it. No group of NCCL's is open: to settle, ranks talk over the communicators.
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
  void startThread(const std::shared_ptr<DeferredWork>& work) const;
  std::vector<std::shared_ptr<Shadow>> shadows() const;

  std::vector<QueuedCall> calls_;
  std::vector<std::pair<ncclRedOp_t, ncclComm_t>> released_;
};

}  // namespace bps::interpose
