// Tests FailurePropagator: a communicator and its child communicators, which carry parts of its calls, fail together.
#include "src/comm/failure/failure_propagator.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "src/comm/failure/first_error.h"

namespace bps::test {
namespace {

class FailurePropagatorTest : public testing::Test {
 protected:
  using Heard = std::vector<std::string>;
  static FailurePropagator::Listener listener(Heard& heard) {
    return [&heard](const Status& failure) { heard.emplace_back(failure.message()); };
  }
  static Status failed(const char* text) { return {Code::kRemote, text}; }

  Heard parent_, first_, second_;
  FailurePropagator propagator_{listener(parent_)};
};

TEST_F(FailurePropagatorTest, TheParentsFailureReachesEveryChildOnceInTheSameWords) {
  propagator_.addChild(listener(first_));
  propagator_.addChild(listener(second_));
  propagator_.parentFailed(failed("rank 3 died"));
  propagator_.parentFailed(failed("a consequence"));
  EXPECT_EQ(first_, Heard{"rank 3 died"});
  EXPECT_EQ(second_, Heard{"rank 3 died"});
  EXPECT_TRUE(parent_.empty());
}

TEST_F(FailurePropagatorTest, AChildAddedAfterTheFailureHearsOfItAtOnce) {
  propagator_.parentFailed(failed("rank 3 died"));
  propagator_.addChild(listener(first_));
  EXPECT_EQ(first_, Heard{"rank 3 died"});
}

TEST_F(FailurePropagatorTest, ARemovedChildHearsNothing) {
  const uint64_t id = propagator_.addChild(listener(first_));
  propagator_.addChild(listener(second_));
  propagator_.removeChild(id);
  propagator_.parentFailed(failed("rank 3 died"));
  EXPECT_TRUE(first_.empty());
  EXPECT_EQ(second_.size(), 1U);
}

TEST_F(FailurePropagatorTest, AChildsFailureReachesTheParentAndNoOtherChild) {
  propagator_.addChild(listener(first_));
  propagator_.childFailed(failed("NCCL failed"));
  EXPECT_EQ(parent_, Heard{"NCCL failed"});
  EXPECT_TRUE(first_.empty()) << "the parent's hub decides what happened";
}

TEST_F(FailurePropagatorTest, AFailedOrDestroyedParentHearsOfNoChild) {
  propagator_.parentFailed(failed("rank 3 died"));
  propagator_.childFailed(failed("a consequence"));
  EXPECT_TRUE(parent_.empty());
  FailurePropagator other(listener(parent_));
  other.removeParent();
  other.childFailed(failed("NCCL failed"));
  EXPECT_TRUE(parent_.empty());
}

TEST(FirstError, KeepsTheFirstFailure) {
  FirstError error;
  EXPECT_FALSE(error.set(Status())) << "success is no failure";
  EXPECT_FALSE(error.failed());
  EXPECT_TRUE(error.set({Code::kRemote, "first"}));
  EXPECT_FALSE(error.set({Code::kSystem, "second"}));
  EXPECT_TRUE(error.failed());
  EXPECT_EQ(error.get().code(), Code::kRemote);
  EXPECT_EQ(error.get().message(), std::string("first"));
}

}  // namespace
}  // namespace bps::test
