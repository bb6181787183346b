// Tests MessageQueue. A queue must preserve the order of its messages, however many requests the plugin accepts at
// once. A queue must keep its first failure.
#include "src/net/message_queue.h"

#include "tests/unit/net/fake/fake_net.h"

namespace bps::test {
namespace {

using net::MessageQueue;
using Direction = MessageQueue::Direction;

class MessageQueueTest : public testing::Test {
 protected:
  static constexpr int kMaxRequests = 3;

  void make(Direction direction) {
    auto adapter =
        std::make_shared<FakeNet>(std::make_shared<FakeWire>(), FakeNet::Options{.maxRequests = kMaxRequests});
    FakeNet::End end = FakeNet::endOf(adapter, direction == Direction::kSend);
    connection_ = end.connection;
    queue_.emplace(std::move(end.comm), direction);
    memory_ = std::move(queue_->comm().registerMemory(bytes_.data(), bytes_.size())).value();
  }
  FakeLink& link() { return connection_->there; }
  // Pushes `count` messages, which are consecutive pieces of bytes_.
  void push(size_t count, size_t bytes = 1) {
    for (; count > 0; --count, at_ += bytes) queue_->push({bytes_.data() + at_, bytes, memory_});
  }

  FakeLink::Message bytes_ = FakeLink::Message(64);
  size_t at_ = 0;
  std::shared_ptr<FakeConnection> connection_;
  std::optional<MessageQueue> queue_;
  void* memory_ = nullptr;
};

TEST_F(MessageQueueTest, PostsNoMoreThanThePluginTakesAndKeepsTheOrder) {
  make(Direction::kSend);
  for (size_t i = 0; i < 10; ++i) bytes_[i] = static_cast<uint8_t>(i);
  push(10);
  for (uint8_t i = 0; i < 10; ++i) {
    queue_->step();  // FakeNet fails the test if it gets a fourth request
    EXPECT_EQ(link().sendsInFlight(), std::min<size_t>(kMaxRequests, 10U - i));
    EXPECT_EQ(link().take(), FakeLink::Message{i});
    EXPECT_EQ(queue_->done(), i);
    EXPECT_TRUE(queue_->step());
    EXPECT_EQ(queue_->done(), i + 1U);
  }
  EXPECT_TRUE(queue_->idle());
}

TEST_F(MessageQueueTest, AMessageThatThePluginDoesNotTakeNowIsPostedLater) {
  make(Direction::kSend);
  link().full = true;
  push(1);
  EXPECT_FALSE(queue_->step());
  EXPECT_EQ(link().sendsInFlight(), 0U);
  EXPECT_FALSE(queue_->idle());
  link().full = false;
  EXPECT_TRUE(queue_->step());
  EXPECT_EQ(link().sendsInFlight(), 1U);
}

TEST_F(MessageQueueTest, ReportsTheBytesOfEveryReceiveInOrder) {
  make(Direction::kReceive);
  push(3, 4);
  queue_->step();
  for (const FakeLink::Message& message : {FakeLink::Message{1, 2}, {}, {3, 4, 5, 6}}) link().deliver(message);
  queue_->step();
  ASSERT_EQ(queue_->done(), 3U);
  for (const size_t bytes : {2U, 0U, 4U}) EXPECT_EQ(queue_->takeReceivedBytes(), bytes);
  EXPECT_EQ(bytes_[0], 1);
  EXPECT_EQ(bytes_[8], 3);
}

TEST_F(MessageQueueTest, ASleepingConnectionIsNotTestedUntilItIsAwake) {
  make(Direction::kReceive);
  push(1);
  queue_->step();
  queue_->comm().setAwake(false);
  link().deliver({1});
  EXPECT_FALSE(queue_->step());
  queue_->comm().setAwake(true);
  EXPECT_TRUE(queue_->step());
}

TEST_F(MessageQueueTest, AFailureKeepsWhatWasDoneAndStopsTheRest) {
  make(Direction::kReceive);
  push(3);
  queue_->step();
  link().deliver({1});
  link().closed = true;
  queue_->step();
  EXPECT_EQ(queue_->done(), 1U) << "one message had come";
  EXPECT_EQ(queue_->failure().message(), std::string("the peer has closed"));
  EXPECT_TRUE(queue_->comm().hasFailed());

  link().closed = false;
  link().deliver({2});
  EXPECT_FALSE(queue_->step()) << "a failed queue moves nothing";
  EXPECT_EQ(queue_->done(), 1U);
  EXPECT_FALSE(queue_->failure().ok());
}

TEST_F(MessageQueueTest, AFailureToPostIsKept) {
  make(Direction::kSend);
  link().failure = "no route";
  push(1);
  EXPECT_FALSE(queue_->step());
  EXPECT_EQ(queue_->failure().message(), std::string("no route"));
  link().failure.clear();
  EXPECT_FALSE(queue_->step());
  EXPECT_EQ(link().sendsInFlight(), 0U);
}

TEST_F(MessageQueueTest, CountsWhatIsSentAndReceived) {
  const auto counters = std::make_shared<net::NetCounters>();
  for (const Direction direction : {Direction::kSend, Direction::kReceive}) {
    const auto adapter = std::make_shared<FakeNet>();
    adapter->countInto(counters);
    FakeNet::End end = FakeNet::endOf(adapter, direction == Direction::kSend);
    MessageQueue queue(std::move(end.comm), direction);
    void* const memory = std::move(queue.comm().registerMemory(bytes_.data(), bytes_.size())).value();
    queue.push({bytes_.data(), 20, memory});
    queue.step();
    if (direction == Direction::kReceive) end.link().deliver(FakeLink::Message(5));
    queue.step();
  }
  EXPECT_EQ(counters->messagesSent.value(), 1U);
  EXPECT_EQ(counters->bytesSent.value(), 20U);
  EXPECT_EQ(counters->bytesReceived.value(), 5U) << "not the size of the buffer";
}

}  // namespace
}  // namespace bps::test
