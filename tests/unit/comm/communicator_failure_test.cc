// Tests CommunicatorFailure: a communicator and its child communicators, which carry parts of its calls, fail together.
#include "src/comm/failure/communicator_failure.h"

#include <gtest/gtest.h>

#include "src/base/format.h"

namespace bps {
namespace {

class CommunicatorFailureTest : public testing::Test {
 protected:
  static std::shared_ptr<Doorbell> bell() { return std::make_shared<Doorbell>(Doorbell::create().value()); }
  static Status broken() { return {Code::kRemote, "broken"}; }
  void link() {
    child_->linkToParent(parent_, "part", [this] { ++interrupts_; });
  }

  std::string fromChild_;  // failure messages that the parent's hub receives
  int interrupts_ = 0;
  CommunicatorFailure parent_{bell(), [this](const Status& failure) { fromChild_ += failure.message(); }};
  std::unique_ptr<CommunicatorFailure> child_ = std::make_unique<CommunicatorFailure>(bell(), [](const Status&) {});
};

TEST_F(CommunicatorFailureTest, AChildsFailureReachesTheParentsHubOnce) {
  link();
  child_->set(broken());
  child_->set(Status(Code::kSystem, "later"));
  EXPECT_EQ(fromChild_, "part: broken");
  EXPECT_FALSE(parent_.failed()) << "the hub decides";
  EXPECT_STREQ(child_->get().message(), "broken");
}

TEST_F(CommunicatorFailureTest, AParentsFailureEndsItsChildren) {
  link();
  parent_.set(broken());
  EXPECT_STREQ(child_->get().message(), "broken");
  EXPECT_EQ(interrupts_, 1);
  EXPECT_EQ(fromChild_, "");
}

TEST_F(CommunicatorFailureTest, AFailureBeforeTheLinkIsPassedOn) {
  parent_.setByThisRank(broken());
  link();
  EXPECT_TRUE(child_->failed());
  EXPECT_EQ(interrupts_, 1);
}

TEST_F(CommunicatorFailureTest, AfterUnlinkNoListenerRuns) {
  link();
  child_->unlink();
  parent_.set(broken());
  EXPECT_FALSE(child_->failed());
  EXPECT_EQ(interrupts_, 0);
  parent_.unlink();
  child_.reset();
}

}  // namespace
}  // namespace bps
