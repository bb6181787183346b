// A Waiter says which of its connections are worth asking after a sleep, and forgets none of them; a Spin says when to
// sleep; a SharedCpu leaves a CPU on which another thread polls; a HomeCpu goes where it belongs.
#include "src/net/waiting/waiter.h"

#include <sched.h>
#include <unistd.h>

#include "src/net/waiting/home_cpu.h"
#include "src/net/waiting/shared_cpu.h"
#include "src/net/waiting/spin.h"
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
microseconds polled(net::Spin<TestClock>& spin, microseconds wait) {
  const auto begin = TestClock::time;
  while (TestClock::time < begin + wait && spin.lasts()) TestClock::time += microseconds(1);
  const auto ended = TestClock::time;
  TestClock::time = std::max(ended, begin + wait);  // the rest was slept through
  spin.renew();
  return std::chrono::duration_cast<microseconds>(ended - begin);
}

TEST(Spin, LastsAsLongAsAWakeUpAtFirst) {
  net::Spin<TestClock> spin;
  const microseconds time = polled(spin, microseconds(1000));
  EXPECT_GE(time, spin.kMost);
  EXPECT_LE(time, spin.kMost + microseconds(4));
}

TEST(Spin, EndsAtOnceWhereWaitsAreLong) {
  net::Spin<TestClock> spin;
  for (int i = 0; i < 20; ++i) polled(spin, microseconds(500));
  EXPECT_EQ(polled(spin, microseconds(500)), microseconds(0));
}

TEST(Spin, WithRoomLastsLonger) {
  net::Spin<TestClock> spin(net::Spin<TestClock>::kMostWithRoom);
  EXPECT_GE(polled(spin, microseconds(1000)), microseconds(200));
  for (int i = 0; i < 20; ++i) polled(spin, microseconds(300));
  EXPECT_GE(polled(spin, microseconds(300)), microseconds(200)) << "waits of twice as long are worth it";
  for (int i = 0; i < 40; ++i) polled(spin, microseconds(1000));
  EXPECT_EQ(polled(spin, microseconds(1000)), microseconds(0));
}

TEST(Spin, LastsAgainWhenWaitsHaveBecomeShort) {
  net::Spin<TestClock> spin;
  for (int i = 0; i < 1000; ++i) polled(spin, microseconds(100000));
  for (int i = 0; i < 20; ++i) polled(spin, microseconds(40));
  EXPECT_EQ(polled(spin, microseconds(40)), microseconds(40));
}

TEST(Spin, OneLongWaitAmongShortOnesChangesNothing) {
  net::Spin<TestClock> spin;
  for (int i = 0; i < 20; ++i) polled(spin, microseconds(20));
  polled(spin, microseconds(1000000));
  EXPECT_EQ(polled(spin, microseconds(40)), microseconds(40));
}

TEST(Spin, AForgottenWaitIsNotCounted) {
  net::Spin<TestClock> spin;
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(spin.lasts());
    spin.forget();
    TestClock::time += microseconds(1000);
    spin.renew();
  }
  EXPECT_EQ(polled(spin, microseconds(40)), microseconds(40));
}

// A thread's place on a machine where other threads poll on some CPUs.
struct FakePlace {
  struct Machine {
    std::vector<bool> busy;
    size_t at = 0, left = 0;
    int yields = 0, switches = 0, moves = 0;
  };
  void yield() const {
    ++machine->yields;
    if (machine->busy[machine->at]) ++machine->switches;
  }
  long switches() const { return machine->switches; }
  bool leave() const {
    if (machine->busy.size() < 2) return false;
    ++machine->moves;
    machine->left = std::exchange(machine->at, (machine->at + 1) % machine->busy.size());
    return true;
  }
  void goBack() const { machine->at = machine->left; }

  Machine* machine;
};
using FakeCpu = net::SharedCpu<FakePlace>;

TEST(SharedCpu, IsLeftForOneThatIsIdle) {
  FakePlace::Machine machine{.busy = {true, false}};
  FakeCpu cpu(1, {&machine});
  for (long i = 0; i < 3 * FakeCpu::kLeast; ++i) cpu.yield();
  EXPECT_EQ(machine.at, 1U);
  for (long i = 0; i < 10000; ++i) cpu.yield();
  EXPECT_EQ(machine.moves, 1);
}

TEST(SharedCpu, IsGoneBackToAndLeftEverMoreRarelyWhereAllAreBusy) {
  FakePlace::Machine machine{.busy = {true, true}};
  FakeCpu cpu(1, {&machine});
  for (long i = 0; i < 20 * FakeCpu::kMost; ++i) cpu.yield();
  EXPECT_GE(machine.moves, 10);
  EXPECT_LE(machine.moves, 30);
  machine.busy[1] = false;
  for (long i = 0; i < 3 * FakeCpu::kMost; ++i) cpu.yield();
  EXPECT_EQ(machine.at, 1U);
}

TEST(SharedCpu, IsNotLeftForAnotherThreadThatWorksNowAndThen) {
  FakePlace::Machine machine{.busy = {false, false}};
  FakeCpu cpu(1, {&machine});
  for (long i = 0; i < 100000; ++i) {
    machine.busy[0] = machine.yields % 4 == 0;
    cpu.yield();
  }
  EXPECT_EQ(machine.moves, 0);
  EXPECT_LT(machine.yields, 100000 / 4) << "alone it polls rather than yields";
}

TEST(SharedCpu, IsKeptWhereThereIsNoOther) {
  FakePlace::Machine machine{.busy = {true}};
  FakeCpu cpu(1, {&machine});
  for (long i = 0; i < 1000; ++i) cpu.yield();
  EXPECT_EQ(machine.yields, 1000);
}

// Always sent away again, if `restless`.
struct FakeHome {
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
using FakeHomeCpu = net::HomeCpu<FakeHome>;

TEST(HomeCpu, IsGoneToAtTheFirstYieldAndEachTimeThatItWasLeft) {
  FakeHome::Machine machine;
  FakeHomeCpu cpu({&machine});
  cpu.yield(0);
  EXPECT_EQ(machine.at, 0U);
  for (long i = 0; i < 10000; ++i) cpu.yield(0);
  EXPECT_EQ(machine.moves, 1);
  EXPECT_EQ(machine.yields, 10001);
  machine.at = 1;
  for (long i = 0; i < FakeHomeCpu::kLeast; ++i) cpu.yield(0);
  EXPECT_EQ(machine.at, 0U);
  for (long i = 0; i < 2 * FakeHomeCpu::kLeast; ++i) cpu.yield(2);  // for another communicator
  EXPECT_EQ(machine.at, 2U);
}

TEST(HomeCpu, IsGoneToEverMoreRarelyWhereItIsSomebodyElses) {
  FakeHome::Machine machine{.restless = true};
  FakeHomeCpu cpu({&machine});
  for (long i = 0; i < 20 * FakeHomeCpu::kMost; ++i) cpu.yield(0);
  EXPECT_GE(machine.moves, 20);
  EXPECT_LE(machine.moves, 40);
  // That it is at home once does not make it go there often again.
  machine.restless = false;
  for (long i = 0; i < FakeHomeCpu::kMost; ++i) cpu.yield(0);
  machine.moves = 0;
  machine.restless = true;
  for (long i = 0; i < FakeHomeCpu::kMost; ++i) cpu.yield(0);
  EXPECT_LE(machine.moves, 3);
  machine.restless = false;
  for (long i = 0; i < 4 * FakeHomeCpu::kMost; ++i) cpu.yield(0);
  machine.at = 1;
  for (long i = 0; i < FakeHomeCpu::kLeast; ++i) cpu.yield(0);
  EXPECT_EQ(machine.at, 0U) << "soon again once it has been left in peace for long";
}

TEST(ThreadPlace, AThreadMovesToTheCpuOfItsNumberAndMayUseTheSameOnesAsBefore) {
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
      net::ThreadPlace::moveTo(number);
      came = ::sched_getcpu() == home;
    }
    EXPECT_TRUE(came) << number;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpus[1], &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_FALSE(net::ThreadPlace::moveTo(0)) << "it is bound";
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
  ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(ThreadPlace, AThreadThatLeavesItsCpuMayUseTheSameOnesAsBefore) {
  cpu_set_t before, after;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  net::ThreadPlace place;
  EXPECT_EQ(place.leave(), CPU_COUNT(&before) > 1);
  ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
  place.goBack();
  ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

class WaiterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const Pair& pair : pairs_) {
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
    for (const Pair& pair : pairs_) awake.push_back(pair.receiver->awake());
    return awake;
  }
  using Awake = std::vector<bool>;

  std::shared_ptr<net::Plugin> plugin_ = loadOurs(Carrier::kTcp);
  std::array<Pair, 3> pairs_{connectPair(*plugin_), connectPair(*plugin_), connectPair(*plugin_)};
  std::vector<uint8_t> room_ = std::vector<uint8_t>(10);
  std::vector<Request> receives_;
  Doorbell bell_ = valueOf(Doorbell::create());
  net::Waiter waiter_ = valueOf(net::Waiter::create(bell_));
};

TEST_F(WaiterTest, OnlyThoseThatEndedASleepAreAwake) {
  EXPECT_EQ(awake(), Awake({true, true, true}));
  EXPECT_FALSE(waiter_.arm());
  EXPECT_EQ(awake(), Awake({false, false, false}));
  sendOn(1);
  EXPECT_TRUE(waiter_.wait(kPatience).ok());
  EXPECT_EQ(awake(), Awake({false, true, false}));
  waiter_.wakeAll();
  EXPECT_EQ(awake(), Awake({true, true, true}));
}

TEST_F(WaiterTest, WhoPollsAsksThoseThatAreWanted) {
  pairs_[0].receiver->setWanted(false);
  waiter_.wakeWanted();
  EXPECT_EQ(awake(), Awake({false, true, true}));
  EXPECT_FALSE(waiter_.arm());
  sendOn(0);
  EXPECT_TRUE(waiter_.wait(kPatience).ok()) << "a sleep ends for any of them";
  EXPECT_EQ(awake(), Awake({true, false, false}));
}

TEST_F(WaiterTest, ASleepElsewhereIsAskedAbout) {
  EXPECT_FALSE(waiter_.arm());
  sendOn(2);
  while (!pairs_[2].receiver->awake()) EXPECT_TRUE(waiter_.ask().ok());
  EXPECT_TRUE(finish(*pairs_[2].receiver, receives_[2]).ok());
}

TEST_F(WaiterTest, WhatIsPostedWakes) {
  EXPECT_FALSE(waiter_.arm());
  valueOf(pairs_[0].receiver->irecv(room_.data(), room_.size(), nullptr));
  EXPECT_EQ(awake(), Awake({true, false, false}));
}

TEST_F(WaiterTest, WhoHasSomethingToDoStaysAwakeWhateverElseHappens) {
  Comm& sender = *pairs_[0].sender;
  EXPECT_TRUE(waiter_.add(sender).ok());
  valueOf(sender.isend(room_.data(), 3, nullptr));
  EXPECT_TRUE(waiter_.arm()) << "sent, and to be tested";
  bell_.ring();
  EXPECT_TRUE(waiter_.ask().ok());
  EXPECT_TRUE(sender.awake());
}

// A failed connection with requests that nobody tests any more is ready for ever.
TEST_F(WaiterTest, WithoutASleepAllAreAwake) {
  EXPECT_FALSE(waiter_.arm());
  pairs_[0].sender.reset();
  EXPECT_TRUE(waiter_.wait(kPatience).ok());
  while (pairs_[0].receiver->test(receives_[0]).ok()) std::this_thread::yield();
  EXPECT_TRUE(waiter_.arm());
  EXPECT_EQ(awake(), Awake({true, true, true}));
}

TEST_F(WaiterTest, ASleepThatNobodyEndedWakesAll) {
  EXPECT_FALSE(waiter_.arm());
  EXPECT_TRUE(waiter_.wait(std::chrono::milliseconds(1)).ok());
  EXPECT_EQ(awake(), Awake({true, true, true}));
}

TEST_F(WaiterTest, BusyOnesDoNotMakeTheOthersForgotten) {
  EXPECT_FALSE(waiter_.arm());
  for (int i = 0; i < 100; ++i) waiter_.noteProgress();
  EXPECT_EQ(awake(), Awake({true, true, true}));
}

}  // namespace
}  // namespace bps::test
