#include "src/reducer/iteration.h"

#include <gtest/gtest.h>

namespace bps::reducer {
namespace {

// Three buckets of the parameters {5, 4}, {3}, {2, 1, 0}, and one further call.
class IterationOfSix : public testing::Test {
 protected:
  IterationOfSix() : buckets_(3) {
    buckets_[0].parameters = {5, 4};
    buckets_[1].parameters = {3};
    buckets_[2].parameters = {2, 1, 0};
    iteration_.beginSynchronized(buckets_, 6, 1);
  }
  void mark(size_t parameter, size_t bucket, bool used = true) {
    EXPECT_TRUE(iteration_.startMark(parameter).ok());
    iteration_.endMark(parameter, bucket, used);
  }
  // Begins and returns all calls that may begin now.
  std::vector<size_t> launchAll() {
    std::vector<size_t> calls;
    while (iteration_.mayLaunch()) calls.push_back(iteration_.launchNext());
    return calls;
  }
  std::vector<Bucket> buckets_;
  Iteration iteration_;
};

using Calls = std::vector<size_t>;

TEST_F(IterationOfSix, CallsBeginInTheOrderOfTheBuckets) {
  EXPECT_EQ(launchAll(), Calls{});
  mark(3, 1);
  for (const size_t parameter : {0, 1, 2}) mark(parameter, 2);
  mark(4, 0);
  EXPECT_EQ(launchAll(), Calls{}) << "bucket 0 lacks parameter 5";
  mark(5, 0);
  EXPECT_EQ(launchAll(), (Calls{0, 1, 2, 3}));
  EXPECT_TRUE(iteration_.allLaunched());
}

TEST_F(IterationOfSix, ABucketBeginsAsSoonAsItIsReady) {
  mark(5, 0);
  mark(4, 0);
  EXPECT_EQ(launchAll(), Calls{0});
  mark(3, 1);
  EXPECT_EQ(launchAll(), Calls{1});
  EXPECT_FALSE(iteration_.allLaunched());
}

TEST_F(IterationOfSix, AStartedMarkIsNotReady) {
  EXPECT_TRUE(iteration_.startMark(5).ok());
  mark(4, 0);
  EXPECT_TRUE(iteration_.marking());
  EXPECT_EQ(launchAll(), Calls{});
  EXPECT_EQ(iteration_.unmarked(), (Calls{0, 1, 2, 3, 5}));
  EXPECT_EQ(iteration_.startMark(5).code(), Code::kInvalidUsage);
  iteration_.endMark(5, 0, true);
  EXPECT_FALSE(iteration_.marking());
  EXPECT_EQ(launchAll(), Calls{0});
}

TEST_F(IterationOfSix, TheReadyOrderListsUnusedParametersLast) {
  mark(3, 1, false);
  mark(0, 2);
  mark(5, 0);
  mark(1, 2, false);
  mark(4, 0);
  EXPECT_EQ(iteration_.readyOrder(), (std::vector<uint32_t>{0, 5, 4, 3, 2, 1}));
}

TEST_F(IterationOfSix, CallsAreInFlightUntilTheyEnd) {
  mark(5, 0);
  mark(4, 0);
  EXPECT_FALSE(iteration_.inFlight());
  EXPECT_EQ(launchAll(), Calls{0});
  EXPECT_TRUE(iteration_.inFlight());
  EXPECT_FALSE(iteration_.ended(0));
  iteration_.callEnded(0);
  EXPECT_TRUE(iteration_.ended(0));
  EXPECT_FALSE(iteration_.inFlight());
  EXPECT_FALSE(iteration_.allEnded());
  const Iteration::CallTimes& times = iteration_.times()[0];
  EXPECT_LE(times.ready, times.launched);
  EXPECT_LE(times.launched, times.ended);
  EXPECT_LT(iteration_.times()[1].ready, 0);
}

TEST_F(IterationOfSix, ALocalIterationMakesNoCalls) {
  iteration_.beginLocal(6);
  for (size_t parameter = 0; parameter < 6; ++parameter) mark(parameter, 0);
  EXPECT_EQ(launchAll(), Calls{});
}

}  // namespace
}  // namespace bps::reducer
