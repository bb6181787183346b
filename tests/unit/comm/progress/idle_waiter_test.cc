// Tests IdleWaiter, in which the progress thread sleeps. The doorbell always ends the sleep. Connections end the sleep
// only while the waiter watches them. The test uses an eventfd in place of the connections.
#include "src/comm/progress/idle_waiter.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>

#include <optional>
#include <thread>

namespace bps::test {
namespace {

using namespace std::chrono_literals;

class IdleWaiterTest : public testing::Test {
 protected:
  void SetUp() override {
    epoll_event event{};
    event.events = EPOLLIN;
    ASSERT_EQ(::epoll_ctl(connections_.get(), EPOLL_CTL_ADD, connection_.fd(), &event), 0);
    waiter_.emplace(std::move(IdleWaiter::create(bell_, connections_.get())).value());
  }
  bool sleep(std::chrono::microseconds most) { return std::move(waiter_->sleep(most)).value(); }

  Doorbell bell_ = std::move(Doorbell::create()).value();
  Doorbell connection_ = std::move(Doorbell::create()).value();
  UniqueFd connections_{::epoll_create1(EPOLL_CLOEXEC)};
  std::optional<IdleWaiter> waiter_;
};

TEST_F(IdleWaiterTest, ASleepEndsAfterItsLongestTime) {
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(sleep(20ms));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 20ms);
}

TEST_F(IdleWaiterTest, ARingBeforeTheSleepEndsIt) {
  bell_.ring();
  EXPECT_TRUE(sleep(5s));
}

TEST_F(IdleWaiterTest, ARingDuringTheSleepEndsIt) {
  std::jthread ringer([this] {
    std::this_thread::sleep_for(20ms);
    bell_.ring();
  });
  EXPECT_TRUE(sleep(5s));
  ringer.join();
}

TEST_F(IdleWaiterTest, ARingEndsOneSleepThoughTheDoorbellIsNotCleared) {
  bell_.ring();
  EXPECT_TRUE(sleep(5s));
  EXPECT_FALSE(sleep(1ms));
  bell_.ring();
  EXPECT_TRUE(sleep(5s));
}

TEST_F(IdleWaiterTest, AConnectionEndsTheSleepOnlyWhileItIsWatched) {
  connection_.ring();
  EXPECT_FALSE(sleep(1ms));
  ASSERT_TRUE(waiter_->watchConnections(true).ok());
  EXPECT_TRUE(sleep(5s));
  EXPECT_TRUE(sleep(5s)) << "the connection still has something";
  ASSERT_TRUE(waiter_->watchConnections(false).ok());
  EXPECT_FALSE(sleep(1ms));
}

TEST_F(IdleWaiterTest, TheConnectionsMayBeWatchedDuringASleep) {
  connection_.ring();
  std::jthread other([this] {
    std::this_thread::sleep_for(20ms);
    EXPECT_TRUE(waiter_->watchConnections(true).ok());
  });
  EXPECT_TRUE(sleep(5s));
  other.join();
}

}  // namespace
}  // namespace bps::test
