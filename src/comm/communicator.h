// Communicator: one rank's membership in an agreed group of ranks and servers. Owns everything that serves it.
//
// Threads: one caller at a time, except failure(), abort() and describe(), which any thread may call at any time.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "src/base/env.h"
#include "src/base/status.h"
#include "src/comm/call/all_reduce_call.h"
#include "src/comm/failure/failure_propagator.h"
#include "src/comm/failure/first_error.h"
#include "src/comm/local/local_reducer.h"
#include "src/comm/progress/progress_thread.h"
#include "src/control/control_plane.h"
#include "src/cuda/staging/cuda_backend.h"
#include "src/plan/tuning.h"

namespace bps {

class Communicator {
 public:
  struct Membership {
    UniqueId id;
    uint32_t rank = 0;
    uint32_t nRanks = 1;
    int device = -1;            // of CUDA, where there is one; -1: the calling thread's
    bool onOneMachine = false;  // of a part of another communicator: known before its ranks meet
  };
  // Does not block; start() comes next.
  static Result<std::unique_ptr<Communicator>> create(const Env& env, const Membership& membership);
  // Calls in flight fail, and their buffers are not touched afterwards. Without finalize() the others see a failure.
  ~Communicator();
  // Blocks until everything is connected, or at most BPS_TIMEOUT.
  Status start();

  uint32_t rank() const { return membership_.rank; }
  uint32_t nRanks() const { return membership_.nRanks; }
  bool finalized() const { return finalized_; }
  // The CUDA device; none: buffers lie on the host.
  std::optional<int> device() const { return cuda_ != nullptr ? std::optional(cuda_->ordinal()) : std::nullopt; }

  // Queues the call on its stream; does not block. Later failures: the stream, and failure().
  Status allReduce(const AllReduceCall& call);
  // Its buffers are memory of the device, in a stream of CUDA's: calls that teams of GPUs may carry out.
  Result<bool> isOnDevice(const AllReduceCall& call);
  // Queues what only compares the call with the others', which other communicators carry out.
  Status submitCheckOnly(const AllReduceCall& call);
  // Everybody's bytes, by rank. Collective; no call may be in flight. Ranks may come BPS_TIMEOUT apart, since each may
  // have waited so long for something else before.
  Result<std::vector<Blob>> allGather(const Blob& mine);
  Deadline timeoutDeadline() const;  // BPS_TIMEOUT from now on
  const Roster& roster() const { return control_->roster(); }
  // Collective. The membership of the new communicator, or none for a negative color. No call may be in flight.
  Result<std::optional<Membership>> split(int color, int key);
  // Waits for all calls, then says goodbye.
  Status finalize();
  // Ends all calls, and a start() that still waits; the others hear that this rank aborted.
  void abort();
  // Something that only this rank knows ends the communicator, on all ranks. Any thread, does not wait.
  void fail(const Status& why);
  // From now on it carries parts of the calls of `whole`, and fails together with it, as the part that `name` tells
  // people of. On CUDA, streams stand at its calls that fail until releaseFailedStreams(): behind them the parts would
  // be put together. Before its first call, by all ranks.
  void linkToParent(const Communicator& parent, std::string name);
  void releaseFailedStreams() const;
  // After abort() of one that was started: until nothing touches a buffer any more; that is bounded.
  void waitForBuffersIdle() const;
  // For who waits for what other ranks of its machine have to do for its calls, beside bps. One that says goodbye has
  // done its part; and once the first rank has, nobody may tell this one what has become of others. Twice BPS_TIMEOUT
  // later, since another may have waited so long for something else, this fails. `until`: never, at first.
  void failIfPeerLeft(Deadline& until);
  Status failure() const { return failure_.get(); }
  // A call has come to its place in its stream, and has not ended.
  bool hasCallsInFlight() const { return progressThread_->progress()->hasCallsInFlight(); }
  const Env& env() const { return env_; }
  // Facts for people and benchmarks, as JSON.
  std::string describe() const;
  // What this machine has moved over its links since start(), as JSON; empty where nobody counts it.
  std::string describeTraffic() const;

 private:
  Communicator(const Env& env, const Membership& membership);
  void failed(const Status& failure);
  void propagateFailure(const Status& failure);
  Status prepare();
  Status connect(Deadline deadline);
  // Finds the size of chunks: from the machines' rates where all are given, else by calls that measure.
  Status tune(Deadline deadline);
  Result<double> measureSlowestRank(size_t bytes, Deadline deadline);
  // Who drives the network: the same on all ranks.
  Status chooseRails(Deadline deadline);
  // How the ranks of this machine work together, where it has several or the user asks.
  Status setUpLocalReducer(Deadline deadline);
  Result<std::unique_ptr<const MachinePlan>> planSingleRank(double network) const;
  NicId nicName() const;
  // The net plugin, where what its devices can do with GPU memory decides whether the machine is looked at.
  Result<bool> canNicReachGpu();
  std::string whyNoGpuDirect() const;
  std::vector<unsigned> cpus() const;
  MachineTraffic* traffic() const { return local_ != nullptr ? &local_->traffic() : singleRankTraffic_.get(); }
  // BPS_TOPO_COUNTERS, by the leader, once all ranks of the machine have all they have called for.
  Status writeTraffic(Deadline deadline) const;
  void logStart() const;
  Status enterStream(const AllReduceCall& call, Collective& collective);
  Status checkOpen();
  std::unique_ptr<Collective> makeCollective(const AllReduceCall& call) const;
  Status submit(std::unique_ptr<Collective> collective, bool startHere);
  Status recordRefusal(const Status& why);

  Env env_;
  Membership membership_;
  FirstError failure_;
  std::shared_ptr<FailurePropagator> failurePropagator_;  // with its parts
  struct ParentLink {
    std::shared_ptr<FailurePropagator> parent;
    uint64_t number;
    std::string name;
  };
  Mutex parentMutex_;  // taken before the tie's
  std::optional<ParentLink> parentLink_ BPS_GUARDED_BY(parentMutex_);
  std::shared_ptr<Doorbell> bell_;
  std::unique_ptr<ControlPlane> control_;
  JobPlan plan_;
  Rails rails_;
  std::unique_ptr<LocalReducer> local_;
  // Of a rank alone on its machine, where the user asks or its NIC reaches its GPU; and why it does not.
  std::unique_ptr<MachineTraffic> singleRankTraffic_;
  std::string singleRankWhyNoGpuDirect_;
  std::unique_ptr<CudaBackend> cuda_;    // null: the host only
  std::shared_ptr<net::Plugin> plugin_;  // null: not asked for yet
  std::unique_ptr<ProgressThread> progressThread_;
  uint64_t nextCall_ = 0;
  uint32_t history_ = 0;   // of that call, see CallInfo
  Tuning tuning_;          // of the next call
  size_t probeBytes_ = 0;  // of the calls that measured
  std::atomic<bool> finalized_{false};
  std::atomic<bool> hasRefusedCall_{false};  // a call, after a failure: as good as lost
  std::atomic<bool> hasRoster_{false};       // the roster is there
};

}  // namespace bps
