// Shadow: the state that the interposer keeps for one NCCL communicator. The application keeps using NCCL's own handle.
//
// The first all-reduce of a communicator creates its shadow. The first all-reduce that bps could serve also starts the
// negotiation (negotiation.h). In the negotiation all ranks agree whether bps serves the communicator, and from which
// call size on. Afterwards the choice between bps and NCCL depends only on the call and on the negotiated terms, so all
// ranks make the same choice.
//
// The shadow table and the calls that are not finished share a Shadow. Only one thread at a time may issue calls, which
// NCCL also requires. Any thread may call end(), error() and lastError().
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

// The outcome of the negotiation of one communicator.
struct NegotiatedTerms {
  size_t minBytes = kServeNone;             // bps serves calls of at least this size
  int device = -1;                          // CUDA device of this rank's NCCL communicator
  bpsComm_t servedComm = nullptr;           // null if bps serves no call
  std::shared_ptr<LocalGpuGroup> gpuGroup;  // null if bps combines buffers inside machines
};

class Shadow {
 public:
  Shadow(ncclComm_t comm, int rank, int nRanks) : comm_(comm), rank_(rank), nRanks_(nRanks) {}
  ~Shadow();
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;

  ncclComm_t comm() const { return comm_; }
  // True if the parent process created the shadow before a fork(). Only the parent process has the connections and
  // threads of such a shadow.
  bool isInheritedByFork() const { return forks_ != forkGeneration(); }
  int rank() const { return rank_; }
  int nRanks() const { return nRanks_; }

  bool negotiated() const { return negotiated_.load(std::memory_order_acquire); }
  // Negotiates with the other ranks. Like the first call of NCCL, negotiate() blocks until all ranks take part.
  ncclResult_t negotiate();
  int device() const { return device_; }
  // True if bps serves the call, false if NCCL does. Call serves() only if negotiated() is true.
  bool serves(const Call& call) const;
  // Issues the call to bps without waiting for its end.
  ncclResult_t issue(const Call& call) { return issue(call, false); }
  // Like issue(), for a thread that has an open NCCL group.
  ncclResult_t issueInGroup(const Call& call) { return issue(call, true); }
  // True if NCCL combines the buffers of a machine's GPUs for some calls that bps serves.
  bool combinesByNccl() { return gpuGroup() != nullptr; }
  // If buffers are in host memory, waits for the calls that issue() has queued.
  ncclResult_t finishOnHost();

  void addOp(ncclRedOp_t op, const UserOp& what) { ops_[op] = what; }
  void removeOp(ncclRedOp_t op) { ops_.erase(op); }
  std::optional<UserOp> findOp(ncclRedOp_t op) const;

  // Call markNonBlocking() if NCCL has returned ncclInProgress on this communicator.
  void markNonBlocking() { nonBlocking_.store(true, std::memory_order_relaxed); }
  bool nonBlocking() const { return nonBlocking_.load(std::memory_order_relaxed); }
  // The calls of a non-blocking communicator that a worker thread carries out for the caller.
  DeferredCalls& deferred() { return deferred_; }
  // If busy() is true, the application must poll ncclCommGetAsyncError before it uses the communicator again.
  bool busy() { return deferred_.inProgress() || (nonBlocking() && finalized_); }

  // Waits for the calls of bps, as ncclCommFinalize waits for the calls of NCCL. If the communicator is non-blocking,
  // finalize() may return ncclInProgress, and error() then reports the end of the calls.
  ncclResult_t finalize();
  // Waits for the calls of bps before the communicator ends. Returns false if the remaining calls must be aborted.
  bool finishCalls();
  enum class EndMode { kDestroy, kAbort };
  // Ends the use of the communicator by bps. After end() returns, bps serves no calls. Only calls that their streams
  // have not reached may still touch their buffers, in the order of these streams. A negotiation in progress fails.
  void end(EndMode how);
  bool ending() const { return ending_.load(std::memory_order_acquire); }

  // The failure of bps on this communicator, as an NCCL result code. While calls are deferred, error() returns
  // ncclInProgress.
  ncclResult_t error();
  std::string lastError();

  void countPassedToNccl(const Call& call);
  // The text of one log line, for the end of the communicator.
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
  std::atomic<int> device_{-1};  // CUDA device; valid after the negotiation
  std::atomic<bool> negotiated_{false}, finalized_{false}, ending_{false}, nonBlocking_{false};
  std::atomic<size_t> minBytes_{kServeNone};
  DeferredCalls deferred_;
  Mutex mutex_;  // not locked while NCCL is called or a call is issued
  bpsComm_t servedComm_ BPS_GUARDED_BY(mutex_) = nullptr;
  bpsHostStream_t hostStream_ BPS_GUARDED_BY(mutex_) = nullptr;
  std::shared_ptr<LocalGpuGroup> gpuGroup_ BPS_GUARDED_BY(mutex_);
  bool negotiating_ BPS_GUARDED_BY(mutex_) = false;
  CondVar negotiationEnded_;
  CallCounter bpsCalls_, gpuGroupCalls_, ncclCalls_;  // bpsCalls_ also counts gpuGroupCalls_
};

}  // namespace bps::interpose
