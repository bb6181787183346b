// Tests CallScheduler. A scheduler must start calls in order, and end each call exactly once and in order. A scheduler
// must also end calls that wait for a rank that has left.
#include "src/comm/progress/call_scheduler.h"

#include <fcntl.h>

#include <thread>

#include "tests/unit/control/cluster.h"

namespace bps::test {
namespace {

// A position in a stream whose call may start when the test sets `started`.
struct FakePosition final : StreamPosition {
  bool started = false;
  int ends = 0;
  std::string outcome;

  bool mayStart() const override { return started; }
  void complete(const Status& status) override {
    ++ends;
    outcome = status.message();
  }
};

class CallSchedulerTest : public testing::Test {
 protected:
  static constexpr size_t kCount = 64;
  static constexpr double kTimeout = 1;
  static constexpr std::chrono::milliseconds kAfterHalfTheTimeOut{550};
  struct Call {
    std::vector<float> send = std::vector<float>(kCount), recv = std::vector<float>(kCount);
    std::shared_ptr<FakePosition> position = std::make_shared<FakePosition>();
  };

  // Makes `ranks` ranks of one machine join. The scheduler under test belongs to the last rank.
  void join(uint32_t ranks) {
    cluster_.emplace(ranks, localEnv(kTimeout), [](uint32_t) { return "one"; });
    cluster_->expectJoined();
    session_.emplace(SessionBase{env_, cluster_->plane(ranks - 1), failure_, serverEvents_, bell_, nullptr, priority_});
    session_->plan = std::move(JobPlan::make(session_->control.roster())).value();
    session_->cutter = std::make_unique<CallCutter>(session_->control.roster(), session_->plan);
  }
  // Creates the LocalReducer of rank 1. Rank 0, the only other rank of the machine, never contributes.
  void makeReducer() {
    env_.topoFile = "cpu";
    auto plan = MachinePlan::make(makeMachineSpec(env_, 2, 0).value()).value();
    LocalRingShape shape{2, 4, session_->plan.limits.maxChunkBytes, static_cast<uint32_t>(plan->program.stages()), 0};
    shape.counters = static_cast<uint32_t>(LinkByteCounters::size(plan->topology));
    LocalReducerSpec spec;
    spec.roster = &session_->control.roster();
    spec.rank = 1;
    spec.env = &env_;
    std::vector<Doorbell> bells;
    for (int i = 0; i < 2; ++i) bells.push_back(Doorbell::create().value());
    session_->local = std::make_unique<LocalReducer>(std::move(spec), std::move(plan), LocalRing::create(shape).value(),
                                                     std::move(bells));
  }
  // Makes rank 0 leave the communicator, and waits until the last rank knows that rank 0 has left.
  void leaveOther() {
    cluster_->plane(0).leave(soon());
    const Deadline deadline = soon();
    while (!session_->control.hasLeft(0) && !deadline.passed()) std::this_thread::sleep_for(1ms);
    ASSERT_TRUE(session_->control.hasLeft(0));
  }
  void create() { scheduler_ = std::move(CallScheduler::create(*session_, nullptr, nullptr)).value(); }
  Call& add(float value, bool started = true) {
    Call& call = *calls_.emplace_back(std::make_unique<Call>());
    std::fill(call.send.begin(), call.send.end(), value);
    call.position->started = started;
    auto collective = std::make_unique<Collective>();
    collective->call.number = calls_.size() - 1;
    collective->call.count = kCount;
    collective->call.type = 7;  // float32
    collective->send = reinterpret_cast<const uint8_t*>(call.send.data());
    collective->recv = reinterpret_cast<uint8_t*>(call.recv.data());
    collective->position = call.position;
    collective->limits = session_->plan.limits;
    countBegin(*collective, session_->counters);
    EXPECT_TRUE(session_->cutter->cut(*collective, failure_.firstError()).ok());
    scheduler_->add(std::move(collective));
    return call;
  }
  bool step() {
    Result<bool> moved = scheduler_->step();
    EXPECT_TRUE(moved.ok()) << moved.error().message();
    return moved.ok() && std::move(moved).value();
  }

  Env env_;
  std::shared_ptr<Doorbell> bell_ = std::make_shared<Doorbell>(std::move(Doorbell::create()).value());
  CommunicatorFailure failure_{bell_, nullptr};
  ServerEvents serverEvents_;
  CommPriority priority_;
  std::optional<Cluster> cluster_;
  std::optional<Session> session_;
  std::vector<std::unique_ptr<Call>> calls_;
  std::unique_ptr<CallScheduler> scheduler_;
};

TEST_F(CallSchedulerTest, ASingleRanksCallIsCopiedAndEndsOnce) {
  join(1);
  create();
  EXPECT_TRUE(scheduler_->quiescent());
  const Call& call = add(3);
  EXPECT_FALSE(scheduler_->quiescent());
  EXPECT_TRUE(step());
  EXPECT_EQ(call.recv, call.send);
  EXPECT_EQ(call.position->ends, 1);
  EXPECT_EQ(call.position->outcome, "");
  EXPECT_EQ(scheduler_->completed(), 1U);
  EXPECT_TRUE(scheduler_->quiescent());
  EXPECT_FALSE(step()) << "there is nothing left to move";
}

TEST_F(CallSchedulerTest, ACallThatMayNotStartHoldsUpThoseBehindIt) {
  join(1);
  create();
  const Call &first = add(1, false), &second = add(2);
  EXPECT_FALSE(step());
  EXPECT_FALSE(scheduler_->hasCallsInFlight()) << "neither has come to its place";
  EXPECT_EQ(second.position->ends, 0);
  first.position->started = true;
  EXPECT_TRUE(step());
  EXPECT_EQ(first.position->ends, 1);
  EXPECT_EQ(second.position->ends, 1);
}

TEST_F(CallSchedulerTest, ACallIsInFlightFromItsStartToItsEnd) {
  join(2);
  makeReducer();
  create();
  add(1);
  add(2, false);
  step();
  EXPECT_TRUE(scheduler_->hasCallsInFlight());
  EXPECT_EQ(scheduler_->completed(), 0U);
}

TEST_F(CallSchedulerTest, CountsTheEndsOfCallsAndTheChunksInFlight) {
  join(2);
  makeReducer();
  CommCounters counters(session_->control.roster(), 1);
  session_->counters = &counters;
  create();
  add(1);
  add(2, false);
  step();
  EXPECT_TRUE(scheduler_->checkStalls().ok());
  EXPECT_EQ(counters.chunksInFlight.load(), 1U) << "of the first call; the second one has not begun";
  EXPECT_EQ(counters.calls.failed.value(), 0U);
  scheduler_->close();
  scheduler_->failAll({Code::kRemote, "rank 0 died"});
  EXPECT_EQ(counters.calls.failed.value(), 2U);
  EXPECT_EQ(counters.calls.completed.value(), 0U);
}

TEST_F(CallSchedulerTest, FailAllEndsStartedAndQueuedCallsWithTheFailure) {
  join(2);
  makeReducer();
  create();
  const Call &active = add(1), &queued = add(2, false);
  step();
  scheduler_->close();
  scheduler_->failAll({Code::kRemote, "rank 0 died"});
  for (const Call* call : {&active, &queued}) {
    EXPECT_EQ(call->position->ends, 1);
    EXPECT_EQ(call->position->outcome, "rank 0 died");
  }
  EXPECT_EQ(scheduler_->completed(), 2U);
  EXPECT_TRUE(scheduler_->quiescent());
  EXPECT_FALSE(scheduler_->hasCallsInFlight());
}

TEST_F(CallSchedulerTest, ACallThatWaitsForARankThatLeftFailsAfterHalfTheTimeOutNamingIt) {
  join(2);
  makeReducer();
  create();
  add(1);
  step();
  EXPECT_TRUE(scheduler_->checkStalls().ok());
  leaveOther();
  EXPECT_TRUE(scheduler_->checkStalls().ok()) << "what the rank sent may still be on its way";
  std::this_thread::sleep_for(kAfterHalfTheTimeOut);
  const Status failure = scheduler_->checkStalls();
  EXPECT_EQ(failure.code(), Code::kRemote);
  EXPECT_EQ(failure.message(), session_->control.roster().rankName(0) +
                                   " has left the communicator, all-reduce #0 of 64 float32, sum cannot complete");
}

TEST_F(CallSchedulerTest, ARankThatLeftIsNoFailureWhileNoCallWaits) {
  join(2);
  makeReducer();
  create();
  leaveOther();
  for (int turn = 0; turn < 2; ++turn) {
    EXPECT_TRUE(scheduler_->checkStalls().ok());
    std::this_thread::sleep_for(kAfterHalfTheTimeOut);
  }
}

TEST_F(CallSchedulerTest, SleepsOnlyIfTheLocalRanksLeaveNothingToDo) {
  join(2);
  makeReducer();
  create();
  EXPECT_TRUE(scheduler_->arm());
  scheduler_->disarm();
  add(1);
  step();
  EXPECT_TRUE(scheduler_->arm()) << "the other rank has to contribute first";
  scheduler_->disarm();
  EXPECT_FALSE(scheduler_->needsPolling());
}

}  // namespace
}  // namespace bps::test
