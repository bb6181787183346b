#include "src/service/wait_times.h"

#include <gtest/gtest.h>

#include <vector>

namespace bps::test {
namespace {

using std::chrono::seconds;

TEST(WaitTimes, CountForMissingMachinesWhileAnotherHasContributed) {
  WaitTimes times(3);
  std::vector<bool> has(3);
  WaitTimes::Clock::time_point now{};
  const auto after = [&](int passed, std::vector<bool> then) {
    now += seconds(passed);
    has = std::move(then);
    times.update([&](size_t machine) { return has[machine]; }, now);
  };
  after(0, {false, false, false});
  after(5, {true, false, false});  // nobody has contributed for 5 s, so nobody was late
  EXPECT_EQ(times.waited(1, now), seconds(0));
  after(2, {true, true, false});
  EXPECT_EQ(times.waited(2, now + seconds(1)), seconds(3));  // the wait has not ended
  after(4, {false, false, false});                           // the round is summed
  after(9, {false, false, true});
  EXPECT_EQ(times.waited(0, now), seconds(0));
  EXPECT_EQ(times.waited(1, now), seconds(2));
  EXPECT_EQ(times.waited(2, now), seconds(6));
}

}  // namespace
}  // namespace bps::test
