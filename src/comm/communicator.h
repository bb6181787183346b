// Communicator: one rank's membership in an agreed group of ranks and servers. Owns everything that serves it.
//
// Threads: one caller at a time, except failure(), abort(), fail() and describe(), which any thread may call at any
// time.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/env.h"
#include "src/base/status.h"
#include "src/comm/call/all_reduce_call.h"
#include "src/comm/failure/communicator_failure.h"
#include "src/comm/progress/progress_thread.h"
#include "src/comm/startup/split.h"
#include "src/control/control_plane.h"
#include "src/cuda/staging/cuda_backend.h"
#include "src/plan/tuning.h"

namespace bps {

class Communicator {
 public:
  using Membership = bps::Membership;
  // Does not block. Call start() next.
  static Result<std::unique_ptr<Communicator>> create(const Env& env, const Membership& membership);
  // Calls in flight fail, and nothing touches their buffers afterwards. Without finalize() the other ranks see a
  // failure.
  ~Communicator();
  // Blocks until everything is connected, or at most BPS_TIMEOUT.
  Status start();

  uint32_t rank() const { return membership_.rank; }
  uint32_t nRanks() const { return membership_.nRanks; }
  bool finalized() const { return state_.finalized; }
  // The CUDA device; none: buffers are in host memory.
  std::optional<int> device() const { return cuda_ != nullptr ? std::optional(cuda_->ordinal()) : std::nullopt; }
  const Roster& roster() const { return control_->roster(); }
  const Env& env() const { return env_; }

  // Queues the call on its stream and does not block. Later failures reach the stream and failure().
  Status allReduce(const AllReduceCall& call);
  // True if both buffers are in memory of the device and the stream is a CUDA stream: local GPU groups may carry out
  // the call.
  Result<bool> isOnDevice(const AllReduceCall& call);
  // Queues a call that moves no data: it only compares the call with those of the other ranks. Other communicators
  // carry it out.
  Status submitCheckOnly(const AllReduceCall& call);
  // Gathers the bytes of all ranks, in rank order. Collective; no call may be in flight. It waits for 2 x BPS_TIMEOUT,
  // because a rank may have waited BPS_TIMEOUT for something else before.
  Result<std::vector<Blob>> allGather(const Blob& mine);
  Deadline timeoutDeadline() const;  // BPS_TIMEOUT from now on
  // The membership of the new communicator; none for a negative color. Collective; no call may be in flight.
  Result<std::optional<Membership>> split(int color, int key);

  // Waits for all calls, then leaves the communicator.
  Status finalize();
  // Ends all calls and a start() that still waits. The other ranks hear that this rank aborted.
  void abort();
  // Ends the communicator on all ranks because of a failure that only this rank knows. Does not block.
  void fail(const Status& why);
  // From now on this communicator carries parts of the calls of `parent`, and both fail together. `name` stands for it
  // in messages. On CUDA, streams stop at failed calls until releaseFailedStreams(): the work behind them would put the
  // parts together. All ranks call it before the first call.
  void linkToParent(const Communicator& parent, std::string name);
  void releaseFailedStreams() const;
  // After abort() of a started communicator: waits, at most 2 s, until nothing touches the buffers any more.
  void waitForBuffersIdle() const;
  // For callers that wait for ranks of their machine outside bps: once such a rank has left, fails after
  // 2 x BPS_TIMEOUT. `until` keeps the deadline between calls; Deadline::never() at first.
  void failIfPeerLeft(Deadline& until);
  Status failure() const { return failure_.get(); }
  // True if a call has come to its place in its stream and has not ended.
  bool hasCallsInFlight() const { return progressThread_->engine()->hasCallsInFlight(); }

  // Facts for people and benchmarks, as JSON.
  std::string describe() const;
  // The bytes that this machine has moved over its links since start(), as JSON; empty if nothing counts them.
  std::string describeTraffic() const;

 private:
  Communicator(const Env& env, const Membership& membership, std::shared_ptr<Doorbell> bell);
  Status connect(Deadline deadline);
  // Finds out how calls should be cut (plan/tuning.h).
  Status tune(Deadline deadline);
  Result<double> timeCall(size_t bytes, const Tuning& tuning, Deadline deadline);
  Status checkOpen();
  Status enterStream(const AllReduceCall& call, Collective& collective);
  using Start = ProgressEngine::Start;
  Status submit(std::unique_ptr<Collective> collective, Start start);
  Status recordLostCall(Status why);
  Status failureOrAborted() const;

  struct State {
    std::atomic<bool> joined{false};    // the roster is known
    std::atomic<bool> lostCall{false};  // a call was refused after a failure
    std::atomic<bool> finalized{false};
  };

  const Env env_;
  const Membership membership_;
  const std::shared_ptr<Doorbell> bell_;  // wakes the progress thread
  CommunicatorFailure failure_;
  std::unique_ptr<ControlPlane> control_;
  std::unique_ptr<CudaBackend> cuda_;  // null: host memory only
  std::unique_ptr<ProgressThread> progressThread_;
  Tuning tuning_;          // of the next calls
  uint64_t nextCall_ = 0;  // its number; every rank makes the same calls, so all ranks give a call the same number
  uint32_t history_ = 0;   // of the next call, see CallInfo
  size_t probeBytes_ = 0;  // total size of the calls that measured the network
  State state_;
};

}  // namespace bps
