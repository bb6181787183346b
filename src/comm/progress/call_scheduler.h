// CallScheduler: carries the calls of one communicator on this rank from admission to completion.
// Only the holder of the progress lock (progress_engine.h) uses the CallScheduler.
//
//   added (in call order) -> admitted (cut into chunks, chunks on their lanes) -> complete (all sums in the buffers)
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/comm/call/collective.h"
#include "src/comm/lanes/data_plane.h"
#include "src/comm/lanes/single_rank_lane.h"
#include "src/comm/local/local_reducer.h"
#include "src/comm/priority/chunk_gate.h"
#include "src/comm/progress/progress_work.h"
#include "src/comm/progress/session.h"
#include "src/comm/servers/server_membership.h"
#include "src/comm/watchdog/call_watchdog.h"
#include "src/cuda/staging/staged_buffers.h"
#include "src/net/waiter.h"

namespace bps {

class CallScheduler final : public ProgressWork {
 public:
  // `plane` is null if this rank does not use the network. `gate` has the buffers of the plane; it may be null if the
  // communicator has no priority. The session and the gate must exist until end() of the engine has returned.
  static Result<std::unique_ptr<CallScheduler>> create(const Session& session, std::unique_ptr<DataPlane> plane,
                                                       ChunkGate* gate);

  void add(std::unique_ptr<Collective> call) override;
  Result<bool> step() override;
  // Also tells the user and the hub if a call waits for a rank or server.
  Status checkStalls() override;
  bool quiescent() const override {
    return queued_.empty() && active_.empty() && (plane_ == nullptr || plane_->drained());
  }
  bool servesPeers() const override { return plane_ != nullptr && session_.control.roster().settings.parameters; }
  bool hasCallsInFlight() const override { return !active_.empty(); }
  uint64_t completed() const override { return counts_.completed; }

  bool arm() override;
  void disarm() override;
  Status collectEvents(std::chrono::microseconds maxSleep) override { return waiter_.wait(maxSleep); }
  void selectNeeded() override { waiter_.markNeededAwake(); }
  std::chrono::microseconds maxSleep() override;
  bool needsPolling() const override;
  int fd() const override { return waiter_.fd(); }

  void close() override;
  void failAll(const Status& failure) override;

 private:
  CallScheduler(const Session& session, std::unique_ptr<DataPlane> plane, ChunkGate* gate, net::Waiter waiter);
  StagedBuffers* staged() const { return session_.staged(); }  // null if all buffers are in host memory
  bool copying() const { return staged() != nullptr && staged()->copying(); }
  bool awaitsStream() const { return staged() != nullptr && staged()->awaitsStream(); }
  Status failIfWaitingForDeparted();
  Status handleServerEvents();
  void loseOwner(const ServerEvent& event);
  bool mayBeginCall() const;
  bool isSecondPush(const Collective& next) const;
  // True if a chunk waits for the calls of a communicator with a higher priority.
  bool withheld() const { return gate_ != nullptr && gate_->withholds(); }
  void reportWait();
  void updateCounters();
  CallsInFlight callsInFlight() const;
  Status admit(std::unique_ptr<Collective> call);
  void distributeChunks(Collective& call);
  bool retire();
  void count(const Collective& call);
  Result<bool> stepDataPlane();
  void finish(Collective& call, const Status& outcome);
  // Records a stage of the call, by default as reached now.
  void record(trace::Stage stage, const Collective& call, uint64_t time = trace::now());
  void recordCopies();

  struct BrokenConnections {
    std::vector<bool> reported;  // one per rank and server; true if the hub knows of the break
    std::string firstError;      // describes the first broken connection; empty if none broke
    size_t firstMember = 0;      // the member of firstError
  };
  struct Waits {
    Deadline departedDeadline = Deadline::never();  // when the wait for a rank that has left becomes a failure
    bool reported = false;                          // the heartbeats report a wait
    CallWatchdog watchdog;
    std::chrono::microseconds streamInterval{};  // until the next look at the streams
  };
  struct Counts {
    uint64_t begun = 0, completed = 0;  // calls
    // The counts before the first call of the application. The calls that measured the network had numbers from 0, too.
    uint64_t completedBefore = 0, messagesBefore = 0;
    Deadline nextUpdate = Deadline::in({});  // of the counters of the session
  };

  const Session& session_;
  std::unique_ptr<DataPlane> plane_;
  ChunkGate* const gate_;
  net::Waiter waiter_;  // watches the connections of the data plane
  UserBuffers userBuffers_;
  SingleRankLane solo_;
  std::deque<std::unique_ptr<Collective>> queued_, active_;
  BrokenConnections broken_;
  Waits waits_;
  ServerMembership servers_;
  Counts counts_;
};

}  // namespace bps
