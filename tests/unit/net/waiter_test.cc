// Tests Waiter and SpinBudget. After a sleep, a Waiter must mark every connection that a thread has to test. A
// SpinBudget decides when a polling thread sleeps.
#include "src/net/waiter.h"

#include <sched.h>
#include <unistd.h>

#include "src/base/process/spin_budget.h"
#include "tests/unit/net/net_fixture.h"

namespace bps::test {
namespace {

using std::chrono::microseconds;

struct TestClock {
  using time_point = std::chrono::steady_clock::time_point;
  static time_point now() { return time; }
  static inline time_point time;
};

// Returns the time for which a thread polls if its request completes after `wait`. The thread polls once per
// microsecond.
microseconds polled(SpinBudget& spin, microseconds wait) {
  const auto begin = TestClock::time;
  while (TestClock::time < begin + wait && spin.consume()) TestClock::time += microseconds(1);
  const auto ended = TestClock::time;
  TestClock::time = std::max(ended, begin + wait);  // the thread sleeps for the remaining time
  spin.onProgress();
  return std::chrono::duration_cast<microseconds>(ended - begin);
}

TEST(SpinBudget, FirstSpinLastsAsLongAsAWakeUp) {
  SpinBudget spin(SpinBudget::kDefault, TestClock::now);
  const microseconds time = polled(spin, microseconds(1000));
  EXPECT_GE(time, SpinBudget::kDefault);
  EXPECT_LE(time, SpinBudget::kDefault + microseconds(4));
}

TEST(SpinBudget, LongWaitsEndSpinningAtOnce) {
  SpinBudget spin(SpinBudget::kDefault, TestClock::now);
  for (int i = 0; i < 20; ++i) polled(spin, microseconds(500));
  EXPECT_EQ(polled(spin, microseconds(500)), microseconds(0));
}

TEST(SpinBudget, LargerMaximumSpinsLonger) {
  SpinBudget spin(4 * SpinBudget::kDefault, TestClock::now);
  EXPECT_GE(polled(spin, microseconds(1000)), microseconds(200));
  for (int i = 0; i < 20; ++i) polled(spin, microseconds(300));
  EXPECT_GE(polled(spin, microseconds(300)), microseconds(200)) << "waits of twice as long are worth it";
  for (int i = 0; i < 40; ++i) polled(spin, microseconds(1000));
  EXPECT_EQ(polled(spin, microseconds(1000)), microseconds(0));
}

TEST(SpinBudget, ShortWaitsRestoreSpinning) {
  SpinBudget spin(SpinBudget::kDefault, TestClock::now);
  for (int i = 0; i < 1000; ++i) polled(spin, microseconds(100000));
  for (int i = 0; i < 20; ++i) polled(spin, microseconds(40));
  EXPECT_EQ(polled(spin, microseconds(40)), microseconds(40));
}

TEST(SpinBudget, OneLongWaitAmongShortOnesIsIgnored) {
  SpinBudget spin(SpinBudget::kDefault, TestClock::now);
  for (int i = 0; i < 20; ++i) polled(spin, microseconds(20));
  polled(spin, microseconds(1000000));
  EXPECT_EQ(polled(spin, microseconds(40)), microseconds(40));
}

TEST(SpinBudget, ADiscardedWaitIsNotCounted) {
  SpinBudget spin(SpinBudget::kDefault, TestClock::now);
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(spin.consume());
    spin.discardWait();
    TestClock::time += microseconds(1000);
    spin.onProgress();
  }
  EXPECT_EQ(polled(spin, microseconds(40)), microseconds(40));
}

class WaiterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const CommPair& pair : pairs_) {
      EXPECT_TRUE(waiter_.add(*pair.receiver).ok());
      receives_.push_back(valueOf(pair.receiver->irecv(room_.data(), room_.size(), nullptr)));
    }
  }
  void TearDown() override { waiter_.clear(); }
  void sendOn(size_t index) {
    Comm& sender = *pairs_[index].sender;
    EXPECT_TRUE(finish(sender, valueOf(sender.isend(room_.data(), 3, nullptr))).ok());
  }
  std::vector<bool> awake() const {
    std::vector<bool> awake;
    for (const CommPair& pair : pairs_) awake.push_back(pair.receiver->awake());
    return awake;
  }
  using Awake = std::vector<bool>;

  std::shared_ptr<net::Plugin> plugin_ = loadBpsPlugin(Carrier::kTcp);
  std::array<CommPair, 3> pairs_{connectPair(*plugin_), connectPair(*plugin_), connectPair(*plugin_)};
  std::vector<uint8_t> room_ = std::vector<uint8_t>(10);
  std::vector<Request> receives_;
  Doorbell bell_ = valueOf(Doorbell::create());
  net::Waiter waiter_ = valueOf(net::Waiter::create(bell_));
};

TEST_F(WaiterTest, OnlyConnectionsThatEndedTheSleepAreAwake) {
  EXPECT_EQ(awake(), Awake({true, true, true}));
  EXPECT_FALSE(waiter_.arm());
  EXPECT_EQ(awake(), Awake({false, false, false}));
  sendOn(1);
  EXPECT_TRUE(waiter_.wait(kTestTimeout).ok());
  EXPECT_EQ(awake(), Awake({false, true, false}));
  waiter_.markAllAwake();
  EXPECT_EQ(awake(), Awake({true, true, true}));
}

TEST_F(WaiterTest, PollingTestsOnlyNeededConnections) {
  pairs_[0].receiver->setNeeded(false);
  waiter_.markNeededAwake();
  EXPECT_EQ(awake(), Awake({false, true, true}));
  EXPECT_FALSE(waiter_.arm());
  sendOn(0);
  EXPECT_TRUE(waiter_.wait(kTestTimeout).ok()) << "a sleep ends for any of them";
  EXPECT_EQ(awake(), Awake({true, false, false}));
}

TEST_F(WaiterTest, AConnectionThatIsNotNeededIsTestedOnlyAfterAnEvent) {
  Comm& receiver = *pairs_[0].receiver;
  receiver.setNeeded(false);
  EXPECT_FALSE(receiver.awake());
  valueOf(receiver.irecv(room_.data(), room_.size(), nullptr));
  EXPECT_FALSE(receiver.awake());
  EXPECT_FALSE(waiter_.arm());
  receiver.setNeeded(true);
  EXPECT_FALSE(receiver.awake()) << "nothing has arrived since it was armed";
  sendOn(0);
  EXPECT_TRUE(waiter_.wait(kTestTimeout).ok());
  EXPECT_TRUE(receiver.awake());
}

TEST_F(WaiterTest, PollEventsAfterASleepElsewhereMarksAwake) {
  EXPECT_FALSE(waiter_.arm());
  sendOn(2);
  while (!pairs_[2].receiver->awake()) EXPECT_TRUE(waiter_.wait(microseconds(0)).ok());
  EXPECT_TRUE(finish(*pairs_[2].receiver, receives_[2]).ok());
}

TEST_F(WaiterTest, PostingMarksTheConnectionAwake) {
  EXPECT_FALSE(waiter_.arm());
  valueOf(pairs_[0].receiver->irecv(room_.data(), room_.size(), nullptr));
  EXPECT_EQ(awake(), Awake({true, false, false}));
}

TEST_F(WaiterTest, AReadyConnectionStaysAwake) {
  Comm& sender = *pairs_[0].sender;
  EXPECT_TRUE(waiter_.add(sender).ok());
  valueOf(sender.isend(room_.data(), 3, nullptr));
  EXPECT_TRUE(waiter_.arm()) << "sent, and to be tested";
  bell_.ring();
  EXPECT_TRUE(waiter_.wait(microseconds(0)).ok());
  EXPECT_TRUE(sender.awake());
}

// A failed connection remains ready if no thread tests its requests any more. If arm() finds such a ready connection,
// the thread never sleeps, so arm() must find the events of the other connections.
TEST_F(WaiterTest, IfArmFindsWorkConnectionsWithEventsAreAwake) {
  EXPECT_FALSE(waiter_.arm());
  pairs_[0].sender.reset();
  EXPECT_TRUE(waiter_.wait(kTestTimeout).ok());
  while (pairs_[0].receiver->test(receives_[0]).ok()) std::this_thread::yield();
  sendOn(1);
  while (!pairs_[1].receiver->awake()) EXPECT_TRUE(waiter_.arm());
  EXPECT_EQ(awake(), Awake({true, true, false}));
}

TEST_F(WaiterTest, ATimedOutSleepMarksAllAwake) {
  EXPECT_FALSE(waiter_.arm());
  EXPECT_TRUE(waiter_.wait(std::chrono::milliseconds(1)).ok());
  EXPECT_EQ(awake(), Awake({true, true, true}));
}

TEST_F(WaiterTest, BusyConnectionsDoNotStarveTheOthers) {
  EXPECT_FALSE(waiter_.arm());
  sendOn(1);
  while (!pairs_[1].receiver->awake()) waiter_.noteProgress();
  EXPECT_EQ(awake(), Awake({false, true, false}));
}

TEST_F(WaiterTest, AConnectionStaysArmedUntilSomethingHappensOnIt) {
  const auto armed = [&] {
    std::vector<bool> each;
    for (const CommPair& pair : pairs_) each.push_back(pair.receiver->armed());
    return each;
  };
  EXPECT_EQ(armed(), Awake({false, false, false}));
  EXPECT_FALSE(waiter_.arm());
  EXPECT_EQ(armed(), Awake({true, true, true}));
  waiter_.markNeededAwake();
  EXPECT_EQ(armed(), Awake({true, true, true})) << "only a test changes a connection";
  EXPECT_FALSE(valueOf(pairs_[0].receiver->test(receives_[0])).done);
  EXPECT_EQ(armed(), Awake({false, true, true}));
  sendOn(1);
  EXPECT_TRUE(waiter_.wait(kTestTimeout).ok());
  EXPECT_EQ(armed(), Awake({false, false, true}));
  valueOf(pairs_[2].receiver->irecv(room_.data(), room_.size(), nullptr));
  EXPECT_EQ(armed(), Awake({false, false, false}));
  EXPECT_FALSE(waiter_.arm());
  EXPECT_TRUE(waiter_.wait(kTestTimeout).ok());
  EXPECT_EQ(awake(), Awake({false, true, false})) << "the data of this connection has not been taken";
}

}  // namespace
}  // namespace bps::test
