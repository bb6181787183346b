// Shadow: what we know of one NCCL communicator, beside NCCL's own handle that the application keeps using.
//
// A shadow is made at the communicator's first all-reduce, however the communicator came to be. The first all-reduce
// that could be served also settles, among all ranks, whether bps serves this communicator and from which size on
// (negotiation.h). From then on the choice for a call depends on nothing but the call and what was agreed.
//
// Threads: one thread at a time issues calls, as NCCL demands. end(), error() and lastError() come from any thread.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "bps/bps.h"
#include "src/api/comm_internal.h"
#include "src/base/mutex.h"
#include "src/base/status.h"
#include "src/interpose/deferred_calls.h"
#include "src/interpose/negotiation/capabilities.h"
#include "src/nccl/call.h"
#include "src/nccl/local_gpu_group.h"

namespace bps::interpose {

using nccl::Call;
using nccl::LocalGpuGroup;
using nccl::toNcclResult;
using nccl::UserOp;

// What all ranks have settled.
struct NegotiatedTerms {
  size_t minBytes = kServeNone;             // calls of at least this size are ours
  int device = -1;                          // NCCL's, of this rank
  bpsComm_t servedComm = nullptr;           // with leastBytes < kNever
  std::shared_ptr<LocalGpuGroup> gpuGroup;  // null: bps does what is to be done inside machines
};

class Shadow {
 public:
  Shadow(ncclComm_t comm, int rank, int nRanks) : comm_(comm), rank_(rank), nRanks_(nRanks) {}
  ~Shadow();
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;

  ncclComm_t comm() const { return comm_; }
  // The shadow belongs to the process that forked this one off, whose connections and threads it has.
  bool isInheritedByFork() const { return forks_ != forkGeneration(); }
  int rank() const { return rank_; }
  int nRanks() const { return nRanks_; }

  bool negotiated() const { return negotiated_.load(std::memory_order_acquire); }
  // The communicator's first call: decides with the other ranks; blocks until they come, like NCCL's first call.
  ncclResult_t negotiate();
  int device() const { return device_; }
  // Ours, or NCCL's? Only when settled.
  bool serves(const Call& call) const;
  // Gives it to bps. Does not wait.
  ncclResult_t issue(const Call& call) { return issue(call, false); }
  // The same from within an open group of NCCL's.
  ncclResult_t issueInGroup(const Call& call) { return issue(call, true); }
  // Waits for what issue() has queued, where only we can.
  ncclResult_t finishOnHost();

  void addOp(ncclRedOp_t op, const UserOp& what) { ops_[op] = what; }
  void removeOp(ncclRedOp_t op) { ops_.erase(op); }
  std::optional<UserOp> findOp(ncclRedOp_t op) const;

  // NCCL said that it is under way with something that it would wait for on a blocking communicator.
  void markNonBlocking() { nonBlocking_.store(true, std::memory_order_relaxed); }
  bool nonBlocking() const { return nonBlocking_.load(std::memory_order_relaxed); }
  // Of a non-blocking communicator: the calls that are carried out without the caller.
  DeferredCalls& deferred() { return deferred_; }
  // Is to be waited for by asking ncclCommGetAsyncError before it is used again.
  bool busy() { return deferred_.inProgress() || (nonBlocking() && finalized_); }

  // Waits for our calls, as ncclCommFinalize does for NCCL's; or begins to, if non-blocking: ncclInProgress, and
  // error() says when it is done.
  ncclResult_t finalize();
  // The same before the end; false: what is left has to be aborted.
  bool finishCalls();
  enum class EndMode { kDestroy, kAbort };
  // No call is served any more and none touches a buffer afterwards; a settle() under way gives up.
  void end(EndMode how);
  bool ending() const { return ending_.load(std::memory_order_acquire); }

  // What went wrong with our part, as NCCL reports such; ncclInProgress while a thread is at it.
  ncclResult_t error();
  std::string lastError();

  void countPassedToNccl(const Call& call);
  // One line for people, when the communicator ends.
  std::string summary() const;

 private:
  struct CallCounter {
    std::atomic<uint64_t> calls{0}, bytes{0};
    void add(size_t more);
  };
  ncclResult_t drain();
  ncclResult_t issueAs(const Call& call, bpsRedOp_t op, bpsComm_t servedComm);
  ncclResult_t issue(const Call& call, bool inGroup);
  ncclResult_t issueToBps(Call call);
  std::shared_ptr<LocalGpuGroup> gpuGroup();

  const ncclComm_t comm_;
  const int rank_, nRanks_;
  const unsigned forks_ = forkGeneration();
  std::map<int, UserOp> ops_;
  std::atomic<int> device_{-1};  // once settled; -1: not known
  std::atomic<bool> negotiated_{false}, finalized_{false}, ending_{false}, nonBlocking_{false};
  std::atomic<size_t> minBytes_{kServeNone};
  DeferredCalls deferred_;
  Mutex mutex_;  // never held while NCCL is called, or a call of ours is issued
  bpsComm_t servedComm_ BPS_GUARDED_BY(mutex_) = nullptr;
  bpsHostStream_t hostStream_ BPS_GUARDED_BY(mutex_) = nullptr;
  std::shared_ptr<LocalGpuGroup> gpuGroup_ BPS_GUARDED_BY(mutex_);
  bool negotiating_ BPS_GUARDED_BY(mutex_) = false;
  CondVar negotiationEnded_;                          // settling_ has ended
  CallCounter bpsCalls_, gpuGroupCalls_, ncclCalls_;  // the second are part of the first
};

}  // namespace bps::interpose
