// Communicator: one rank's membership in a fixed group of ranks and servers. It contains all
// threads and connections that the rank uses for this group.
//
// Threads: only one thread at a time may use a Communicator, except that any thread may call
// failure(), abort(), fail(), setPriority() and describe() at any time.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/env.h"
#include "src/base/status.h"
#include "src/comm/call/all_reduce_call.h"
#include "src/comm/call/param_table.h"
#include "src/comm/failure/communicator_failure.h"
#include "src/comm/metrics/rank_metrics.h"
#include "src/comm/priority/comm_priority.h"
#include "src/comm/progress/progress_thread.h"
#include "src/comm/servers/server_events.h"
#include "src/comm/startup/split.h"
#include "src/control/control_plane.h"
#include "src/cuda/staging/cuda_backend.h"
#include "src/plan/tuning/tuning.h"

namespace bps {

class Communicator {
 public:
  using Membership = bps::Membership;
  // Does not block. Call start() next.
  static Result<std::unique_ptr<Communicator>> create(const Env& env, const Membership& membership);
  // Calls in flight fail, and afterwards nothing accesses their buffers. If finalize() was not
  // called, the other ranks see a failure.
  ~Communicator();
  // Blocks until all connections exist, at most for BPS_TIMEOUT.
  Status start();

  uint32_t rank() const { return membership_.rank; }
  uint32_t nRanks() const { return membership_.nRanks; }
  bool finalized() const { return state_.finalized; }
  // Returns the CUDA device, or none if all buffers are in host memory.
  std::optional<int> device() const { return cuda_ != nullptr ? std::optional(cuda_->ordinal()) : std::nullopt; }
  const Roster& roster() const { return control_->roster(); }
  const Env& env() const { return env_; }

  // Queues the call on its stream and does not block. The stream and failure() report later
  // failures.
  Status allReduce(const AllReduceCall& call);
  // As allReduce(), for calls that fuseCalls() (plan/fusion.h) has combined. The calls have numbers.
  Status allReduceFused(std::span<const AllReduceCall> calls);
  // Makes the next parameter of a communicator with Membership::parameters. All ranks make the same parameters in the
  // same order. Call useTuningOf() before the first one.
  void addParameter(size_t count, DataType type);
  void useTuningOf(const Communicator& parent) { tuning_ = parent.tuning_; }
  // Queues a request to a parameter, as allReduce(). `call.op` is an operation on parameters. isForOwner() requests go
  // to all owners.
  Status requestParameter(const AllReduceCall& call, ParamCall param);
  // Blocks until all calls on CUDA streams have ended.
  Status waitForDevice() const;
  // True if the calls of a group may fuse: no rank has a CUDA device, so all buffers are in host memory.
  bool fusesCalls() const { return state_.onlyHostMemory; }
  // Reserves the numbers of the next calls, and returns the first of these numbers.
  uint64_t reserveNumbers(size_t calls) { return std::exchange(nextCall_, nextCall_ + calls); }
  // True if both buffers are in memory of the device and the stream is a CUDA stream. Local GPU
  // groups may then carry out the call.
  Result<bool> isOnDevice(const AllReduceCall& call);
  // Queues a call that moves no data. The queued call is only compared with the calls of the other
  // ranks. Other communicators move the data of the call.
  Status submitCheckOnly(const AllReduceCall& call);
  // Gathers the bytes of all ranks, in rank order. All ranks call this method, while no call is in
  // flight. allGather() waits at most 2 x BPS_TIMEOUT, because another rank may wait BPS_TIMEOUT
  // for something else before it calls.
  Result<std::vector<Blob>> allGather(const Blob& mine);
  Deadline timeoutDeadline() const;  // ends BPS_TIMEOUT from now
  // Returns the membership of the new communicator, or none for a negative color. All ranks call
  // this method, while no call is in flight.
  Result<std::optional<Membership>> split(int color, int key);
  // Returns the membership of the new communicator without the excluded ranks, see
  // shrunkenMembership(). This communicator may have failed.
  Membership shrink(const std::vector<uint32_t>& excluded) const;

  // Waits for all calls, then leaves the communicator.
  Status finalize();
  // Ends all calls, and a start() that still waits. The other ranks learn that this rank aborted.
  void abort();
  // Ends the communicator on all ranks because of a failure that only this rank knows. Does not block.
  void fail(const Status& why);
  // Makes this communicator a child of `parent`: it carries parts of the parent's calls, and both
  // fail together. Error messages refer to the child as `name`. All ranks call this method before the first call.
  void linkToParent(const Communicator& parent, std::string name);
  // Sets the priority of the calls among the communicators of this process, from 0 to PriorityBoard::kMaxPriority.
  void setPriority(int priority) { state_.priority->set(priority); }
  // A CUDA stream stands at a failed call until releaseFailedStreams(): later work must not take the buffers for sums.
  void releaseFailedStreams() const;
  // Between beginGroup() and endGroup(), CUDA streams wait for all calls at once (CudaBackend::beginGroup()).
  void beginGroup() const {
    if (cuda_ != nullptr) cuda_->beginGroup();
  }
  Status endGroup() const { return cuda_ != nullptr ? cuda_->endGroup() : Status(); }
  // Waits until nothing accesses the buffers any more, at most 2 s. Call waitForBuffersIdle() after
  // abort() of a started communicator.
  void waitForBuffersIdle() const;
  // A caller that waits outside bps for ranks of its machine calls this function repeatedly. If one
  // of these ranks has left, the communicator fails after 2 x BPS_TIMEOUT. `until` keeps the
  // deadline between calls of this method; its first value is Deadline::never().
  void failIfPeerLeft(Deadline& until);
  Status failure() const { return failure_.get(); }
  // The reason why the calls go on without a server; empty if no server is lost. Any thread may call
  // this method.
  std::string latestServerLoss() const { return state_.serverEvents.latestLoss(); }
  // True if a stream has reached a call that has not ended yet.
  bool hasCallsInFlight() const { return progressThread_->engine()->hasCallsInFlight(); }

  // Returns facts about the communicator as JSON, for people and benchmarks.
  std::string describe() const;
  // Returns the bytes that this machine has moved over its links since start(), as JSON. The result
  // is empty if nothing counts these bytes.
  std::string describeTraffic() const;

 private:
  Communicator(const Env& env, const Membership& membership, std::shared_ptr<Doorbell> bell);
  Status connect(Deadline deadline);
  Status shareDevices(Deadline deadline);
  // Chooses the tuning (plan/tuning/tuning.h), which may need timed calls.
  Status tune(Deadline deadline);
  Result<double> timeCalls(size_t bytes, int calls, Deadline deadline);
  Status checkOpen();
  // Cuts the call into chunks. May wait for a change of servers (call_cutter.h).
  Status cut(Collective& collective);
  Status issueOnDevice(const AllReduceCall& call, std::unique_ptr<Collective> collective);
  Status submitOnDevice(const AllReduceCall& call, std::unique_ptr<Collective> collective);
  // Without a number, the call gets the next number.
  Status submit(std::unique_ptr<Collective> collective, std::optional<uint64_t> number);
  Status recordLostCall(Status why);
  Status failureOrAborted() const;

  struct State {
    std::atomic<bool> joined{false};    // the roster is known
    std::atomic<bool> lostCall{false};  // a call was refused after a failure
    std::atomic<bool> finalized{false};
    bool onlyHostMemory = false;        // no rank has a CUDA device
    std::shared_ptr<ParamStore> store;  // if the communicator keeps parameters
    std::unique_ptr<ParamTable> parameters;
    ServerEvents serverEvents;
    std::unique_ptr<RankMetrics> metrics;  // null if BPS_METRICS is unset
    CommCounters* counters = nullptr;      // of `metrics`; null until the program may make calls
    const std::shared_ptr<CommPriority> priority = std::make_shared<CommPriority>();  // shared with children
  };

  const Env env_;
  const Membership membership_;
  const std::shared_ptr<Doorbell> bell_;  // wakes the progress thread
  CommunicatorFailure failure_;
  State state_;  // declared before the members whose threads use it
  std::unique_ptr<ControlPlane> control_;
  std::unique_ptr<CudaBackend> cuda_;  // null if all buffers are in host memory
  std::unique_ptr<ProgressThread> progressThread_;
  Tuning tuning_;          // applies to the next calls
  uint64_t nextCall_ = 0;  // number of the next call; equal on all ranks, because all ranks make the same calls
  uint32_t history_ = 0;   // history of the next call, see CallInfo
  size_t probeBytes_ = 0;  // total size of the calls that measured the network
};

}  // namespace bps
