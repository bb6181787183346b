// CallScheduler: the calls of one communicator on this rank, from admission to completion. Belongs to
// who has the turn (progress_engine.h).
//
//   added (in call order) -> admitted (cut, chunks on their lanes) -> complete (all sums are in the buffers)
#pragma once
#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/comm/cuda/staged_buffers.h"
#include "src/comm/lanes/collective.h"
#include "src/comm/lanes/data_plane.h"
#include "src/comm/lanes/single_rank_lane.h"
#include "src/comm/local/local_reducer.h"
#include "src/plan/cutter.h"

namespace bps {

// Who carries the chunks of a call, and who counts them.
struct SchedulerArgs {
  Rails rails;
  DataPlane* plane = nullptr;         // null: no network to use
  LocalReducer* local = nullptr;      // null: this rank is alone on its machine
  MachineTraffic* traffic = nullptr;  // null: nobody counts
  StagedBuffers* staged = nullptr;    // null: the host's memory only
};

class CallScheduler {
 public:
  CallScheduler(ControlPlane& control, const JobPlan& plan, const SchedulerArgs& args);

  void add(std::unique_ptr<Collective> call) { queued_.push_back(std::move(call)); }
  // Moves what can move; true when anything did. Fails only with what ends the communicator.
  Result<bool> step();
  // To be asked when nothing moves: fails when a call waits for a member that has said goodbye.
  Status failIfWaitingForDeparted();
  // To be called when nothing moves: tells the hub for whom a call has waited for the time-out.
  void reportWait();
  // Ends all calls. The data plane must have been closed before: nothing may touch the buffers any more.
  void failAll(const Status& failure);

  bool idle() const { return queued_.empty() && active_.empty(); }
  // Some call has come to its place in its stream.
  bool hasCallsInFlight() const { return !active_.empty(); }
  // A connection broke and the hub has not said yet what that means.
  bool hasConnectionError() const { return !connectionError_.empty(); }
  uint64_t completed() const { return completed_.load(std::memory_order_acquire); }  // any thread

 private:
  Status admit(std::unique_ptr<Collective> call);
  void distributeChunks(Collective& call);
  bool retire();
  void count(const Collective& call);
  Result<bool> stepDataPlane();
  void finish(Collective& call, const Status& outcome);

  ControlPlane& control_;
  const Rails rails_;
  DataPlane* plane_;
  LocalReducer* local_;
  MachineTraffic* traffic_;
  StagedBuffers* staged_;
  UserBuffers userBuffers_;
  SingleRankLane solo_;
  Cutter cutter_;
  std::deque<std::unique_ptr<Collective>> queued_, active_;
  std::vector<bool> suspected_;  // per member: the hub was told
  std::string connectionError_;  // how the first connection broke
  Deadline stallDeadline_ = Deadline::never();
  bool waitReported_ = false;  // the hub was told so
  std::atomic<uint64_t> completed_{0};
};

}  // namespace bps
