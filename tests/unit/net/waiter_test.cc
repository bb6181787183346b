// A Waiter says which of its connections are worth asking after a sleep, and forgets none of them; a SpinBudget says
// when to sleep; a ContendedCpu leaves a CPU on which another thread polls; a AssignedCpu goes where it belongs.
#include "src/net/waiting/waiter.h"

#include <sched.h>
#include <unistd.h>

#include "src/net/waiting/assigned_cpu.h"
#include "src/net/waiting/contended_cpu.h"
#include "src/net/waiting/spin_budget.h"
#include "tests/unit/net/net_fixture.h"

namespace bps::test {
namespace {

using std::chrono::microseconds;

struct TestClock {
  using time_point = std::chrono::steady_clock::time_point;
  static time_point now() { return time; }
  static inline time_point time;
};

// How long a thread polls that asks every microsecond, when what it waits for comes after `wait`.
microseconds polled(net::SpinBudget<TestClock>& spin, microseconds wait) {
  const auto begin = TestClock::time;
  while (TestClock::time < begin + wait && spin.consume()) TestClock::time += microseconds(1);
  const auto ended = TestClock::time;
  TestClock::time = std::max(ended, begin + wait);  // the rest was slept through
  spin.onProgress();
  return std::chrono::duration_cast<microseconds>(ended - begin);
}

TEST(SpinBudget, FirstSpinLastsAsLongAsAWakeUp) {
  net::SpinBudget<TestClock> spin;
  const microseconds time = polled(spin, microseconds(1000));
  EXPECT_GE(time, spin.kMax);
  EXPECT_LE(time, spin.kMax + microseconds(4));
}

TEST(SpinBudget, LongWaitsEndSpinningAtOnce) {
  net::SpinBudget<TestClock> spin;
  for (int i = 0; i < 20; ++i) polled(spin, microseconds(500));
  EXPECT_EQ(polled(spin, microseconds(500)), microseconds(0));
}

TEST(SpinBudget, LargerMaximumSpinsLonger) {
  net::SpinBudget<TestClock> spin(net::SpinBudget<TestClock>::kMaxUncontended);
  EXPECT_GE(polled(spin, microseconds(1000)), microseconds(200));
  for (int i = 0; i < 20; ++i) polled(spin, microseconds(300));
  EXPECT_GE(polled(spin, microseconds(300)), microseconds(200)) << "waits of twice as long are worth it";
  for (int i = 0; i < 40; ++i) polled(spin, microseconds(1000));
  EXPECT_EQ(polled(spin, microseconds(1000)), microseconds(0));
}

TEST(SpinBudget, ShortWaitsRestoreSpinning) {
  net::SpinBudget<TestClock> spin;
  for (int i = 0; i < 1000; ++i) polled(spin, microseconds(100000));
  for (int i = 0; i < 20; ++i) polled(spin, microseconds(40));
  EXPECT_EQ(polled(spin, microseconds(40)), microseconds(40));
}

TEST(SpinBudget, OneLongWaitAmongShortOnesIsIgnored) {
  net::SpinBudget<TestClock> spin;
  for (int i = 0; i < 20; ++i) polled(spin, microseconds(20));
  polled(spin, microseconds(1000000));
  EXPECT_EQ(polled(spin, microseconds(40)), microseconds(40));
}

TEST(SpinBudget, ADiscardedWaitIsNotCounted) {
  net::SpinBudget<TestClock> spin;
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(spin.consume());
    spin.discardWait();
    TestClock::time += microseconds(1000);
    spin.onProgress();
  }
  EXPECT_EQ(polled(spin, microseconds(40)), microseconds(40));
}

// A thread's place on a machine where other threads poll on some CPUs.
struct FakeAffinity {
  struct Machine {
    std::vector<bool> busy;
    size_t at = 0, left = 0;
    int yields = 0, involuntarySwitches = 0, moves = 0;
  };
  void yield() const {
    ++machine->yields;
    if (machine->busy[machine->at]) ++machine->involuntarySwitches;
  }
  long involuntarySwitches() const { return machine->involuntarySwitches; }
  bool moveAway() const {
    if (machine->busy.size() < 2) return false;
    ++machine->moves;
    machine->left = std::exchange(machine->at, (machine->at + 1) % machine->busy.size());
    return true;
  }
  void moveBack() const { machine->at = machine->left; }

  Machine* machine;
};
using FakeCpu = net::ContendedCpu<FakeAffinity>;

TEST(ContendedCpu, MovesToAnIdleCpu) {
  FakeAffinity::Machine machine{.busy = {true, false}};
  FakeCpu cpu(1, {&machine});
  for (long i = 0; i < 3 * FakeCpu::kMin; ++i) cpu.yield();
  EXPECT_EQ(machine.at, 1U);
  for (long i = 0; i < 10000; ++i) cpu.yield();
  EXPECT_EQ(machine.moves, 1);
}

TEST(ContendedCpu, MovesLessOftenIfAllCpusAreBusy) {
  FakeAffinity::Machine machine{.busy = {true, true}};
  FakeCpu cpu(1, {&machine});
  for (long i = 0; i < 20 * FakeCpu::kMax; ++i) cpu.yield();
  EXPECT_GE(machine.moves, 10);
  EXPECT_LE(machine.moves, 30);
  machine.busy[1] = false;
  for (long i = 0; i < 3 * FakeCpu::kMax; ++i) cpu.yield();
  EXPECT_EQ(machine.at, 1U);
}

TEST(ContendedCpu, OccasionalContentionDoesNotCauseAMove) {
  FakeAffinity::Machine machine{.busy = {false, false}};
  FakeCpu cpu(1, {&machine});
  for (long i = 0; i < 100000; ++i) {
    machine.busy[0] = machine.yields % 4 == 0;
    cpu.yield();
  }
  EXPECT_EQ(machine.moves, 0);
  EXPECT_LT(machine.yields, 100000 / 4) << "alone it polls rather than yields";
}

TEST(ContendedCpu, StaysIfThereIsNoOtherCpu) {
  FakeAffinity::Machine machine{.busy = {true}};
  FakeCpu cpu(1, {&machine});
  for (long i = 0; i < 1000; ++i) cpu.yield();
  EXPECT_EQ(machine.yields, 1000);
}

// Always sent away again, if `restless`.
struct FakeAssignedAffinity {
  struct Machine {
    bool restless = false;
    size_t at = 1;
    int moves = 0;
    long yields = 0;
  };
  void yield() const { ++machine->yields; }
  bool moveTo(size_t number) const {
    if (machine->at == number && !machine->restless) return false;
    machine->at = number;
    ++machine->moves;
    return true;
  }
  Machine* machine;
};
using FakeAssignedCpu = net::AssignedCpu<FakeAssignedAffinity>;

TEST(AssignedCpu, FirstYieldAndLaterChecksMoveThere) {
  FakeAssignedAffinity::Machine machine;
  FakeAssignedCpu cpu({&machine});
  cpu.yield(0);
  EXPECT_EQ(machine.at, 0U);
  for (long i = 0; i < 10000; ++i) cpu.yield(0);
  EXPECT_EQ(machine.moves, 1);
  EXPECT_EQ(machine.yields, 10001);
  machine.at = 1;
  for (long i = 0; i < FakeAssignedCpu::kMin; ++i) cpu.yield(0);
  EXPECT_EQ(machine.at, 0U);
  for (long i = 0; i < 2 * FakeAssignedCpu::kMin; ++i) cpu.yield(2);  // for another communicator
  EXPECT_EQ(machine.at, 2U);
}

TEST(AssignedCpu, MovesLessOftenIfTheKernelMovesItAway) {
  FakeAssignedAffinity::Machine machine{.restless = true};
  FakeAssignedCpu cpu({&machine});
  for (long i = 0; i < 20 * FakeAssignedCpu::kMax; ++i) cpu.yield(0);
  EXPECT_GE(machine.moves, 20);
  EXPECT_LE(machine.moves, 40);
  // That it is at home once does not make it go there often again.
  machine.restless = false;
  for (long i = 0; i < FakeAssignedCpu::kMax; ++i) cpu.yield(0);
  machine.moves = 0;
  machine.restless = true;
  for (long i = 0; i < FakeAssignedCpu::kMax; ++i) cpu.yield(0);
  EXPECT_LE(machine.moves, 3);
  machine.restless = false;
  for (long i = 0; i < 4 * FakeAssignedCpu::kMax; ++i) cpu.yield(0);
  machine.at = 1;
  for (long i = 0; i < FakeAssignedCpu::kMin; ++i) cpu.yield(0);
  EXPECT_EQ(machine.at, 0U) << "soon again once it has been left in peace for long";
}

TEST(ThreadAffinity, MoveToKeepsTheAllowedCpus) {
  cpu_set_t before, after;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &before)) cpus.push_back(cpu);
  if (cpus.size() < 2 || static_cast<long>(cpus.size()) < ::sysconf(_SC_NPROCESSORS_ONLN))
    GTEST_SKIP() << "bound to " << cpus.size() << " CPUs";
  for (size_t number = 0; number < 2 * cpus.size(); ++number) {
    const int home = cpus[number % cpus.size()];
    bool came = false;
    for (int tries = 0; tries < 100 && !came; ++tries) {  // a busy kernel may move it away before it asks
      net::ThreadAffinity::moveTo(number);
      came = ::sched_getcpu() == home;
    }
    EXPECT_TRUE(came) << number;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpus[1], &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_FALSE(net::ThreadAffinity::moveTo(0)) << "it is bound";
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
  ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(ThreadAffinity, MoveAwayKeepsTheAllowedCpus) {
  cpu_set_t before, after;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  net::ThreadAffinity place;
  EXPECT_EQ(place.moveAway(), CPU_COUNT(&before) > 1);
  ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
  place.moveBack();
  ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
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

TEST_F(WaiterTest, PollEventsAfterASleepElsewhereMarksAwake) {
  EXPECT_FALSE(waiter_.arm());
  sendOn(2);
  while (!pairs_[2].receiver->awake()) EXPECT_TRUE(waiter_.pollEvents().ok());
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
  EXPECT_TRUE(waiter_.pollEvents().ok());
  EXPECT_TRUE(sender.awake());
}

// A failed connection with requests that nobody tests any more is ready for ever.
TEST_F(WaiterTest, IfArmFindsWorkAllAreAwake) {
  EXPECT_FALSE(waiter_.arm());
  pairs_[0].sender.reset();
  EXPECT_TRUE(waiter_.wait(kTestTimeout).ok());
  while (pairs_[0].receiver->test(receives_[0]).ok()) std::this_thread::yield();
  EXPECT_TRUE(waiter_.arm());
  EXPECT_EQ(awake(), Awake({true, true, true}));
}

TEST_F(WaiterTest, ATimedOutSleepMarksAllAwake) {
  EXPECT_FALSE(waiter_.arm());
  EXPECT_TRUE(waiter_.wait(std::chrono::milliseconds(1)).ok());
  EXPECT_EQ(awake(), Awake({true, true, true}));
}

TEST_F(WaiterTest, BusyConnectionsDoNotStarveTheOthers) {
  EXPECT_FALSE(waiter_.arm());
  for (int i = 0; i < 100; ++i) waiter_.noteProgress();
  EXPECT_EQ(awake(), Awake({true, true, true}));
}

}  // namespace
}  // namespace bps::test
