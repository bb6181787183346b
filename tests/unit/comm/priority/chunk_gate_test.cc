#include "src/comm/priority/chunk_gate.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/comm/lanes/fake_buffers.h"

namespace bps::test {
namespace {

using namespace std::chrono_literals;
using Clock = PriorityBoard::Clock;

TEST(PriorityBoard, HoldsBackOnlyLowerPrioritiesUntilTheGivenTime) {
  PriorityBoard board;
  const auto now = Clock::now();
  for (int priority = 0; priority <= PriorityBoard::kMaxPriority; ++priority)
    EXPECT_FALSE(board.heldBack(priority, now)) << priority;
  board.hold(3, now + 1ms);
  for (int priority = 0; priority <= PriorityBoard::kMaxPriority; ++priority) {
    EXPECT_EQ(board.heldBack(priority, now), priority < 3) << priority;
    EXPECT_FALSE(board.heldBack(priority, now + 1ms)) << priority;
  }
  board.hold(PriorityBoard::kMaxPriority, now + 1ms);
  board.release(3);
  EXPECT_TRUE(board.heldBack(3, now));
  board.release(PriorityBoard::kMaxPriority);
  EXPECT_FALSE(board.heldBack(0, now));
}

class ChunkGateTest : public testing::Test {
 protected:
  static constexpr std::chrono::milliseconds kPause{200};
  ChunkGateTest() {
    buffers_.add(2, 8, {});
    urgent_.set(5);
    urgent_.setHoldTime(std::chrono::hours(1));
  }
  bool mayStart(ChunkGate& gate) {
    gate.beginStep();
    return gate.ready(buffers_.call(0), 0);
  }
  bool heldBack(int priority = 0) const { return board_.heldBack(priority, Clock::now()); }

  PriorityBoard board_;
  FakeBuffers buffers_;
  CommPriority low_{board_}, urgent_{board_};
  ChunkGate lowGate_{buffers_, low_, kPause}, urgentGate_{buffers_, urgent_, kPause};
};

TEST_F(ChunkGateTest, WithholdsChunksWhileAHigherPriorityMovesData) {
  EXPECT_TRUE(mayStart(lowGate_));
  EXPECT_FALSE(lowGate_.withholds());
  urgentGate_.endStep(true, true);
  EXPECT_FALSE(mayStart(lowGate_));
  EXPECT_TRUE(lowGate_.withholds());
  EXPECT_TRUE(mayStart(urgentGate_));
  urgentGate_.endStep(true, false);  // its calls have ended
  EXPECT_TRUE(mayStart(lowGate_));
  EXPECT_FALSE(lowGate_.withholds());
}

TEST_F(ChunkGateTest, ACallThatDoesNotMoveWithholdsNothing) {
  urgentGate_.endStep(false, true);
  EXPECT_FALSE(heldBack());
  urgent_.setHoldTime(1us);
  urgentGate_.endStep(true, true);
  std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(mayStart(lowGate_));
}

TEST_F(ChunkGateTest, OpensForOneStepInEachPause) {
  urgentGate_.endStep(true, true);
  EXPECT_FALSE(mayStart(lowGate_));
  for (int pause = 0; pause < 2; ++pause) {
    std::this_thread::sleep_for(kPause);
    EXPECT_TRUE(mayStart(lowGate_));
    EXPECT_FALSE(mayStart(lowGate_));
  }
}

TEST_F(ChunkGateTest, AnEndedCommunicatorWithholdsNothing) {
  urgentGate_.endStep(true, true);
  EXPECT_TRUE(heldBack());
  urgentGate_.end();
  EXPECT_FALSE(heldBack());
}

TEST_F(ChunkGateTest, AChangedPriorityAppliesFromTheNextStepOn) {
  urgentGate_.endStep(true, true);
  urgent_.set(2);
  urgentGate_.endStep(true, true);
  EXPECT_TRUE(heldBack(1));
  EXPECT_FALSE(heldBack(2));
  low_.set(2);
  EXPECT_TRUE(mayStart(lowGate_));
  urgent_.set(0);
  EXPECT_TRUE(urgentGate_.mayHold()) << "the last hold has not ended";
  urgentGate_.endStep(true, true);
  EXPECT_FALSE(heldBack());
  EXPECT_FALSE(urgentGate_.mayHold());
}

TEST_F(ChunkGateTest, AnIncompleteContributionIsNotWithheld) {
  urgentGate_.endStep(true, true);
  buffers_.readyBelow = 0;
  EXPECT_FALSE(mayStart(lowGate_));
  EXPECT_FALSE(lowGate_.withholds());
}

TEST_F(ChunkGateTest, AChildHasThePriorityOfItsParent) {
  const auto parent = std::make_shared<CommPriority>(board_);
  CommPriority child(board_);
  child.set(1);
  child.follow(parent);
  EXPECT_EQ(child.get(), 0);
  parent->set(4);
  EXPECT_EQ(child.get(), 4);
}

TEST(ChunkGate, APauseIsShorterThanEveryTimeLimitForAPeer) {
  EXPECT_EQ(ChunkGate::longestPause(100s), 250ms);
  EXPECT_EQ(ChunkGate::longestPause(100ms), 25ms);
}

}  // namespace
}  // namespace bps::test
