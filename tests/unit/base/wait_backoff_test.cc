#include "src/base/wait_backoff.h"

#include <gtest/gtest.h>

#include <vector>

namespace bps::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const WaitBackoff::TimePoint kStart{seconds(1000)};

// Checks every half second and returns the waits that are reported up to `end`.
std::vector<int64_t> reportsUntil(WaitBackoff& backoff, seconds end) {
  std::vector<int64_t> reports;
  for (milliseconds at{0}; at <= end; at += milliseconds(500))
    if (const auto waited = backoff.check(kStart + at)) reports.push_back(waited->count());
  return reports;
}

TEST(WaitBackoff, ReportsAfterTwoFourEightSeconds) {
  WaitBackoff backoff;
  EXPECT_EQ(reportsUntil(backoff, seconds(40)), (std::vector<int64_t>{2, 4, 8, 16, 32}));
}

TEST(WaitBackoff, ProgressStartsTheTimesAnew) {
  WaitBackoff backoff;
  EXPECT_EQ(reportsUntil(backoff, seconds(9)), (std::vector<int64_t>{2, 4, 8}));
  backoff.restart();
  EXPECT_EQ(backoff.waited(kStart + seconds(9)), seconds(0));
  EXPECT_EQ(reportsUntil(backoff, seconds(5)), (std::vector<int64_t>{2, 4}));
}

TEST(WaitBackoff, FrequentProgressPreventsReports) {
  WaitBackoff backoff;
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(backoff.check(kStart + i * seconds(3)));
    backoff.restart();
  }
}

TEST(WaitBackoff, AThreadThatSleptReportsOnceForTheTimesThatItMissed) {
  WaitBackoff backoff;
  EXPECT_FALSE(backoff.check(kStart));
  EXPECT_EQ(backoff.check(kStart + seconds(9)), seconds(9));
  EXPECT_FALSE(backoff.check(kStart + seconds(15)));
  EXPECT_EQ(backoff.check(kStart + seconds(16)), seconds(16));
  EXPECT_EQ(backoff.waited(kStart + seconds(17)), seconds(17));
}

}  // namespace
}  // namespace bps::test
