#include "src/base/spin.h"

#include <gtest/gtest.h>

namespace bps {
namespace {

using std::chrono::microseconds;

struct TestClock {
  using time_point = std::chrono::steady_clock::time_point;
  static time_point now() { return time; }
  static inline time_point time;
};

// How long a thread polls that asks every microsecond, when what it waits for comes after `wait`.
microseconds polled(Spin<TestClock>& spin, microseconds wait) {
  const auto begin = TestClock::time;
  while (TestClock::time < begin + wait && spin.lasts()) TestClock::time += microseconds(1);
  const auto ended = TestClock::time;
  TestClock::time = std::max(ended, begin + wait);  // the rest was slept through
  spin.renew();
  return std::chrono::duration_cast<microseconds>(ended - begin);
}

TEST(Spin, LastsAsLongAsAWakeUpAtFirst) {
  Spin<TestClock> spin;
  const microseconds time = polled(spin, microseconds(1000));
  EXPECT_GE(time, spin.kMost);
  EXPECT_LE(time, spin.kMost + microseconds(4));
}

TEST(Spin, EndsAtOnceWhereWaitsAreLong) {
  Spin<TestClock> spin;
  for (int i = 0; i < 20; ++i) polled(spin, microseconds(500));
  EXPECT_EQ(polled(spin, microseconds(500)), microseconds(0));
}

TEST(Spin, LastsAgainWhenWaitsHaveBecomeShort) {
  Spin<TestClock> spin;
  for (int i = 0; i < 1000; ++i) polled(spin, microseconds(100000));
  for (int i = 0; i < 20; ++i) polled(spin, microseconds(40));
  EXPECT_EQ(polled(spin, microseconds(40)), microseconds(40));
}

TEST(Spin, OneLongWaitAmongShortOnesChangesNothing) {
  Spin<TestClock> spin;
  for (int i = 0; i < 20; ++i) polled(spin, microseconds(20));
  polled(spin, microseconds(1000000));
  EXPECT_EQ(polled(spin, microseconds(40)), microseconds(40));
}

TEST(Spin, AForgottenWaitIsNotCounted) {
  Spin<TestClock> spin;
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(spin.lasts());
    spin.forget();
    TestClock::time += microseconds(1000);
    spin.renew();
  }
  EXPECT_EQ(polled(spin, microseconds(40)), microseconds(40));
}

}  // namespace
}  // namespace bps
