// Shadow: the interposer's state of one NCCL communicator, beside NCCL's own handle that the application keeps using.
//
// The communicator's first all-reduce makes the shadow. The first all-reduce that bps could serve also starts the
// negotiation of all ranks: whether bps serves the communicator, and from which size on (negotiation.h). From then on
// the choice depends only on the call and on the negotiated terms, so all ranks choose alike.
//
// The shadow table and the calls in flight share it. Threads: one thread at a time issues calls, as NCCL demands;
// end(), error() and lastError() on any.
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

// The outcome of the negotiation.
struct NegotiatedTerms {
  size_t minBytes = kServeNone;             // bps serves calls of at least this size
  int device = -1;                          // CUDA device of this rank's NCCL communicator
  bpsComm_t servedComm = nullptr;           // null: bps serves no call
  std::shared_ptr<LocalGpuGroup> gpuGroup;  // null: bps combines buffers inside machines
};

class Shadow {
 public:
  Shadow(ncclComm_t comm, int rank, int nRanks) : comm_(comm), rank_(rank), nRanks_(nRanks) {}
  ~Shadow();
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;

  ncclComm_t comm() const { return comm_; }
  // True: the parent process made the shadow, and has its connections and threads.
  bool isInheritedByFork() const { return forks_ != forkGeneration(); }
  int rank() const { return rank_; }
  int nRanks() const { return nRanks_; }

  bool negotiated() const { return negotiated_.load(std::memory_order_acquire); }
  // Negotiates with the other ranks; blocks until they come, like NCCL's first call.
  ncclResult_t negotiate();
  int device() const { return device_; }
  // True: bps serves the call, else NCCL does. After negotiated().
  bool serves(const Call& call) const;
  // Issues the call to bps. Does not wait.
  ncclResult_t issue(const Call& call) { return issue(call, false); }
  // Issues the call while the thread has an NCCL group open.
  ncclResult_t issueInGroup(const Call& call) { return issue(call, true); }
  // Waits for the calls that issue() has queued, if buffers are in host memory.
  ncclResult_t finishOnHost();

  void addOp(ncclRedOp_t op, const UserOp& what) { ops_[op] = what; }
  void removeOp(ncclRedOp_t op) { ops_.erase(op); }
  std::optional<UserOp> findOp(ncclRedOp_t op) const;

  // NCCL has returned ncclInProgress on this communicator.
  void markNonBlocking() { nonBlocking_.store(true, std::memory_order_relaxed); }
  bool nonBlocking() const { return nonBlocking_.load(std::memory_order_relaxed); }
  // The calls of a non-blocking communicator that a worker thread carries out.
  DeferredCalls& deferred() { return deferred_; }
  // True: the application must poll ncclCommGetAsyncError before it uses the communicator again.
  bool busy() { return deferred_.inProgress() || (nonBlocking() && finalized_); }

  // Waits for the calls of bps, as ncclCommFinalize does for NCCL's. If non-blocking, returns ncclInProgress, and
  // error() reports the end.
  ncclResult_t finalize();
  // Waits for the calls of bps before the communicator ends. False: the calls that remain must be aborted.
  bool finishCalls();
  enum class EndMode { kDestroy, kAbort };
  // bps serves no more calls, and none touches a buffer after it returns. A negotiation in progress gives up.
  void end(EndMode how);
  bool ending() const { return ending_.load(std::memory_order_acquire); }

  // The failure of bps's part, as a result of NCCL; ncclInProgress while calls are deferred.
  ncclResult_t error();
  std::string lastError();

  void countPassedToNccl(const Call& call);
  // One log line for the end of the communicator.
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
  std::atomic<int> device_{-1};  // CUDA device, once negotiated
  std::atomic<bool> negotiated_{false}, finalized_{false}, ending_{false}, nonBlocking_{false};
  std::atomic<size_t> minBytes_{kServeNone};
  DeferredCalls deferred_;
  Mutex mutex_;  // not held while NCCL is called or a call is issued
  bpsComm_t servedComm_ BPS_GUARDED_BY(mutex_) = nullptr;
  bpsHostStream_t hostStream_ BPS_GUARDED_BY(mutex_) = nullptr;
  std::shared_ptr<LocalGpuGroup> gpuGroup_ BPS_GUARDED_BY(mutex_);
  bool negotiating_ BPS_GUARDED_BY(mutex_) = false;
  CondVar negotiationEnded_;
  CallCounter bpsCalls_, gpuGroupCalls_, ncclCalls_;  // bpsCalls_ include gpuGroupCalls_
};

}  // namespace bps::interpose
