// Tests a CallScheduler that has a data plane. The scheduler must sum calls over the data plane. If a connection
// breaks, the scheduler must report the peer to the hub, which decides who has failed.
#include "src/comm/progress/call_scheduler.h"

#include <deque>

#include "tests/unit/comm/lanes/two_machines.h"

namespace bps::test {
namespace {

struct Position final : StreamPosition {
  int ends = 0;

  bool mayStart() const override { return true; }
  void complete(const Status&) override { ++ends; }
};

class CallSchedulerNetworkTest : public testing::Test {
 protected:
  static constexpr size_t kCount = 100'000;

  void SetUp() override {
    machines_.connectAll();
    for (size_t rank = 0; rank < 2; ++rank) {
      Session& session = sessions_.emplace_back(
          SessionBase{env_, machines_.control(rank), failure_, serverEvents_, bell_, nullptr, priority_});
      session.plan = machines_.plan();
      session.cutter = std::make_unique<CallCutter>(machines_.control(rank).roster(), session.plan);
      schedulers_[rank] =
          std::move(CallScheduler::create(session, std::move(machines_.planes[rank]), &gates_[rank])).value();
    }
  }
  void add(size_t rank) {
    data_[rank].assign(kCount, static_cast<float>(rank + 1));
    auto call = std::make_unique<Collective>();
    call->call.number = 0;
    call->call.count = kCount;
    call->call.type = 7;  // float32
    call->send = call->recv = reinterpret_cast<uint8_t*>(data_[rank].data());
    call->position = positions_[rank];
    call->limits = machines_.plan().limits;
    ASSERT_TRUE(sessions_[rank].cutter->cut(*call, failure_.firstError()).ok());
    schedulers_[rank]->add(std::move(call));
  }
  void step(size_t rank) {
    const Result<bool> moved = schedulers_[rank]->step();
    ASSERT_TRUE(moved.ok()) << moved.error().message();
  }

  bool heldBack() const { return board_.heldBack(0, PriorityBoard::Clock::now()); }
  void stepUntilQuiescent() {
    const Deadline deadline = soon();
    while ((!schedulers_[0]->quiescent() || !schedulers_[1]->quiescent()) && !deadline.passed())
      for (size_t rank = 0; rank < 2; ++rank) step(rank);
  }

  PriorityBoard board_;
  CommPriority priority_{board_};
  UserBuffers buffers_;
  ChunkGate gates_[2] = {{buffers_, priority_, std::chrono::hours(1)}, {buffers_, priority_, std::chrono::hours(1)}};
  const Env env_{};
  std::shared_ptr<Doorbell> bell_ = std::make_shared<Doorbell>(std::move(Doorbell::create()).value());
  CommunicatorFailure failure_{bell_, nullptr};
  ServerEvents serverEvents_;
  TwoMachines machines_{{&gates_[0], &gates_[1]}};
  std::deque<Session> sessions_;
  std::vector<float> data_[2];
  std::shared_ptr<Position> positions_[2] = {std::make_shared<Position>(), std::make_shared<Position>()};
  std::unique_ptr<CallScheduler> schedulers_[2];
};

TEST_F(CallSchedulerNetworkTest, ACallEndsOnAllRanksWithTheSum) {
  for (size_t rank = 0; rank < 2; ++rank) add(rank);
  stepUntilQuiescent();
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(positions_[rank]->ends, 1);
    EXPECT_EQ(data_[rank], std::vector<float>(kCount, 3));
  }
}

TEST_F(CallSchedulerNetworkTest, IsNotQuiescentWhileACallWaitsForThePeer) {
  add(0);
  step(0);
  EXPECT_FALSE(schedulers_[0]->quiescent());
  EXPECT_TRUE(schedulers_[0]->hasCallsInFlight());
}

TEST_F(CallSchedulerNetworkTest, ABrokenConnectionIsNoFailureBeforeTheHubHasJudgedIt) {
  add(0);
  for (int turn = 0; turn < 5; ++turn) step(0);
  schedulers_[1]->close();
  for (int turn = 0; turn < 20; ++turn) step(0);
  EXPECT_EQ(positions_[0]->ends, 0);
  EXPECT_TRUE(schedulers_[0]->needsPolling());
  const std::string heard = machines_.cluster()[0].failures.wait();
  const Roster& roster = machines_.control(0).roster();
  EXPECT_NE(heard.find("connection of " + roster.rankName(0) + " with " + roster.rankName(1)), std::string::npos)
      << heard;
}

TEST_F(CallSchedulerNetworkTest, AfterCloseNothingTouchesTheBuffersAndTheCallsFail) {
  add(0);
  for (int turn = 0; turn < 5; ++turn) step(0);
  schedulers_[0]->close();
  schedulers_[0]->failAll({Code::kRemote, "rank 1 died"});
  EXPECT_EQ(positions_[0]->ends, 1);
  EXPECT_EQ(data_[0], std::vector<float>(kCount, 1)) << "the contribution is as it was";
}

TEST_F(CallSchedulerNetworkTest, AWithheldCallGoesOnWhenTheHigherPriorityEnds) {
  board_.setInUse();
  board_.hold(1, PriorityBoard::Clock::now() + std::chrono::hours(1));
  for (size_t rank = 0; rank < 2; ++rank) add(rank);
  for (int turn = 0; turn < 100; ++turn)
    for (size_t rank = 0; rank < 2; ++rank) step(rank);
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(schedulers_[rank]->completed(), 0U);
    EXPECT_TRUE(gates_[rank].withholds());
  }
  board_.release(1);
  stepUntilQuiescent();
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(data_[rank], std::vector<float>(kCount, 3));
    EXPECT_FALSE(gates_[rank].withholds());
  }
}

TEST_F(CallSchedulerNetworkTest, ACallWithAPriorityWithholdsOthersUntilItEnds) {
  priority_.setHoldTime(std::chrono::hours(1));
  priority_.set(1);
  step(0);
  EXPECT_FALSE(heldBack()) << "there is no call";
  for (size_t rank = 0; rank < 2; ++rank) add(rank);
  step(0);
  EXPECT_TRUE(heldBack());
  stepUntilQuiescent();
  EXPECT_EQ(positions_[0]->ends, 1);
  EXPECT_FALSE(heldBack());
}

TEST_F(CallSchedulerNetworkTest, AfterCloseACallWithholdsNothing) {
  priority_.setHoldTime(std::chrono::hours(1));
  priority_.set(1);
  add(0);
  step(0);
  EXPECT_TRUE(heldBack());
  schedulers_[0]->close();
  EXPECT_FALSE(heldBack());
}

}  // namespace
}  // namespace bps::test
