// Tests that a CallInbox loses no call. A call may arrive just before the progress thread sleeps, or just before the
// inbox closes.
#include "src/comm/progress/call_inbox.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
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

// The caller pushes a call only after the previous call has been taken. So no later call can wake a thread that missed
// a wake-up.
TEST_F(CallInboxTest, ASleepNeverMissesACall) {
  constexpr uint64_t kCalls = 20'000;
  std::atomic<uint64_t> taken{0};
  std::atomic<bool> missed{false};
  std::jthread caller([&] {
    for (uint64_t i = 0; i < kCalls && !missed.load(); ++i) {
      EXPECT_TRUE(push(i));
      inbox_.wake();
      while (taken.load() <= i && !missed.load()) std::this_thread::yield();
    }
  });
  while (taken.load() < kCalls && !missed.load()) {
    taken.fetch_add(takeAll().size());
    if (taken.load() < kCalls && inbox_.prepareToSleep() && !rung(5000)) missed.store(true);
    bell_->clear();
    inbox_.endSleep();
  }
  caller.join();
  EXPECT_FALSE(missed.load()) << "after " << taken.load() << " calls";
}

}  // namespace
}  // namespace bps::test
