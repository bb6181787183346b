#include "src/base/deadline.h"

#include <gtest/gtest.h>

#include <thread>

namespace bps {
namespace {

using namespace std::chrono_literals;

TEST(DeadlineTest, PassesAfterItsTime) {
  EXPECT_FALSE(Deadline::in(1h).passed());
  EXPECT_TRUE(Deadline::in(0s).passed());
  EXPECT_TRUE(Deadline::in(-1s).passed());
  const Deadline soon = Deadline::in(2ms);
  std::this_thread::sleep_for(3ms);
  EXPECT_TRUE(soon.passed());
}

TEST(DeadlineTest, NeverDoesNotPass) {
  EXPECT_FALSE(Deadline::never().passed());
  EXPECT_EQ(Deadline::never().leftMs(), 1000);
  EXPECT_EQ(Deadline::never().leftMs(7), 7);
}

TEST(DeadlineTest, RemainingTimeIsRoundedUpAndBounded) {
  EXPECT_EQ(Deadline::in(-1s).leftMs(), 0);
  EXPECT_EQ(Deadline::in(1h).leftMs(), 1000);
  EXPECT_EQ(Deadline::in(300us).leftMs() > 0, !Deadline::in(300us).passed());
  const int left = Deadline::in(500ms).leftMs();
  EXPECT_GT(left, 400);
  EXPECT_LE(left, 500);
}

TEST(DeadlineTest, EarlierReturnsTheFirstToPass) {
  const Deadline soon = Deadline::in(1s), late = Deadline::in(1h);
  EXPECT_EQ(soon.earlier(late).at(), soon.at());
  EXPECT_EQ(late.earlier(soon).at(), soon.at());
  EXPECT_EQ(Deadline::never().earlier(soon).at(), soon.at());
}

}  // namespace
}  // namespace bps
