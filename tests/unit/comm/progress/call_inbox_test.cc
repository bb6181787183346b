// A CallInbox loses no call: neither between a look and a sleep, nor when it closes.
#include "src/comm/progress/call_inbox.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <thread>

namespace bps::test {
namespace {

class CallInboxTest : public testing::Test {
 protected:
  bool push(uint64_t number) {
    auto call = std::make_unique<Collective>();
    call->call.number = number;
    return inbox_.push(call);
  }
  std::vector<uint64_t> takeAll() {
    std::vector<uint64_t> numbers;
    inbox_.takeAll([&](std::unique_ptr<Collective> call) { numbers.push_back(call->call.number); });
    return numbers;
  }
  bool rung(int timeoutMs = 0) {
    pollfd poll{bell_->fd(), POLLIN, 0};
    return ::poll(&poll, 1, timeoutMs) == 1;
  }

  std::shared_ptr<Doorbell> bell_ = std::make_shared<Doorbell>(std::move(Doorbell::create()).value());
  CallInbox inbox_{bell_};
};

TEST_F(CallInboxTest, HandsOutCallsOnceAndInOrder) {
  for (const uint64_t number : {3U, 1U, 2U}) EXPECT_TRUE(push(number));
  EXPECT_EQ(inbox_.pushed(), 3U);
  EXPECT_EQ(takeAll(), (std::vector<uint64_t>{3, 1, 2}));
  EXPECT_FALSE(inbox_.takeAll([](auto) { FAIL() << "the call was taken before"; }));
  EXPECT_TRUE(push(4));
  EXPECT_EQ(takeAll(), (std::vector<uint64_t>{4}));
}

TEST_F(CallInboxTest, AClosedInboxRefusesACallAndLeavesItToItsCaller) {
  push(1);
  const std::vector<std::unique_ptr<Collective>> rest = inbox_.close();
  ASSERT_EQ(rest.size(), 1U);
  EXPECT_EQ(rest[0]->call.number, 1U);
  auto call = std::make_unique<Collective>();
  EXPECT_FALSE(inbox_.push(call));
  EXPECT_NE(call, nullptr);
  EXPECT_EQ(inbox_.pushed(), 1U);
  EXPECT_TRUE(inbox_.close().empty());
}

TEST_F(CallInboxTest, RingsOnlyForASleeper) {
  push(1);
  inbox_.wake();
  EXPECT_FALSE(rung());
  takeAll();
  ASSERT_TRUE(inbox_.prepareToSleep());
  push(2);
  inbox_.wake();
  EXPECT_TRUE(rung());
  bell_->clear();
  inbox_.endSleep();
  inbox_.wake();
  EXPECT_FALSE(rung());
}

TEST_F(CallInboxTest, ACallThatIsThereForbidsToSleep) {
  EXPECT_TRUE(inbox_.prepareToSleep());
  inbox_.endSleep();
  push(1);
  EXPECT_FALSE(inbox_.prepareToSleep());
  inbox_.endSleep();
  takeAll();
  EXPECT_TRUE(inbox_.prepareToSleep());
}

TEST_F(CallInboxTest, ASleepNeverMissesACall) {
  constexpr int kThreads = 2, kCalls = 5000;
  std::vector<std::thread> callers;
  for (int t = 0; t < kThreads; ++t)
    callers.emplace_back([&] {
      for (uint64_t i = 0; i < kCalls; ++i) {
        EXPECT_TRUE(push(i));
        inbox_.wake();
        if (i % 3 == 0) std::this_thread::yield();
      }
    });
  size_t taken = 0;
  while (taken < size_t{kThreads} * kCalls) {
    taken += takeAll().size();
    const bool last = taken == size_t{kThreads} * kCalls;
    const bool missed = !last && inbox_.prepareToSleep() && !rung(5000);
    bell_->clear();
    inbox_.endSleep();
    EXPECT_FALSE(missed) << "after " << taken << " calls";
    if (missed) break;
  }
  for (std::thread& caller : callers) caller.join();
}

}  // namespace
}  // namespace bps::test
