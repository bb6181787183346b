// Tests CompletionCounter, which holds the number up to which all calls of a communicator have ended.
#include "src/cuda/stream_gate.h"

#include <future>

#include "tests/unit/nccl/fake_gpu.h"

namespace bps::cuda {
namespace {

using namespace std::chrono_literals;

class CompletionCounterTest : public testing::Test {
 protected:
  uint32_t value() const { return *cell_.word() - first_; }

  const PinnedCell cell_ = [] {
    const PinnedCell cell = std::move(PinnedCell::take(nccl::fakeDevice())).value();
    PinnedCell::recycle(nccl::fakeDevice(), cell);  // the counter will take this cell, which was recycled last
    return cell;
  }();
  const uint32_t first_ = *cell_.word();
  std::shared_ptr<CompletionCounter> counter_ = std::move(CompletionCounter::create(nccl::fakeDevice())).value();
};

TEST_F(CompletionCounterTest, NumbersCallsInOrder) {
  EXPECT_EQ(counter_->issue() - first_, 1U);
  EXPECT_EQ(counter_->issue() - first_, 2U);
  EXPECT_EQ(value(), 0U);
}

TEST_F(CompletionCounterTest, StopsBeforeTheFirstCallThatHasNotEnded) {
  const uint32_t first = counter_->issue(), second = counter_->issue(), third = counter_->issue();
  counter_->complete(second);
  EXPECT_EQ(value(), 0U);
  counter_->complete(first);
  EXPECT_EQ(value(), 2U);
  counter_->complete(third);
  EXPECT_EQ(value(), 3U);
}

TEST_F(CompletionCounterTest, WaitEndsWithTheCall) {
  const uint32_t number = counter_->issue();
  std::future<void> waited = std::async(std::launch::async, [&] { counter_->waitFor(number); });
  EXPECT_EQ(waited.wait_for(20ms), std::future_status::timeout);
  counter_->complete(number);
  EXPECT_EQ(waited.wait_for(10s), std::future_status::ready);
}

TEST_F(CompletionCounterTest, NextOwnerOfTheCellContinuesItsCount) {
  counter_->complete(counter_->issue());
  counter_ = nullptr;
  counter_ = std::move(CompletionCounter::create(nccl::fakeDevice())).value();
  EXPECT_EQ(value(), 1U);
  EXPECT_EQ(counter_->issue() - first_, 2U);
}

}  // namespace
}  // namespace bps::cuda
