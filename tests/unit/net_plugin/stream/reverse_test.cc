// Tests the reverse direction of a connection (bpsNetReverse_v1). Both directions must carry messages at the same time,
// and each direction must close separately.
#include <gmock/gmock.h>

#include <future>

#include "tests/unit/net/net_fixture.h"

namespace bps::test {
namespace {

// The two directions of one connection.
struct BothWays {
  CommPair out, back;
};

BothWays connectBothWays(net::Plugin& plugin) {
  BothWays both;
  both.out = connectPair(plugin);
  both.back.receiver = valueOf(both.out.sender->reverse());
  both.back.sender = valueOf(both.out.receiver->reverse());
  return both;
}

std::string failureOf(Comm& comm, Request request) {
  const Result<size_t> outcome = finish(comm, request);
  return outcome.ok() ? "none" : outcome.error().message();
}

// Sends many messages of different sizes through `pair`, and checks the received bytes.
testing::AssertionResult manyMessages(CommPair& pair, unsigned seed) {
  for (unsigned i = 0; i < 40; ++i) {
    const size_t bytes = i % 4 == 0 ? size_t{1} << 20 : i * 37;
    testing::AssertionResult each = transfers(pair, randomBytes(bytes, seed + i), bytes);
    if (!each) return each << " (message " << i << ")";
  }
  return testing::AssertionSuccess();
}

TEST(Reverse, BothDirectionsCarryMessagesAtOnce) {
  const auto plugin = loadBpsPlugin(Carrier::kTcp);
  BothWays both = connectBothWays(*plugin);
  ASSERT_TRUE(both.back.sender && both.back.receiver);
  auto back = std::async(std::launch::async, [&] { return manyMessages(both.back, 100); });
  EXPECT_TRUE(manyMessages(both.out, 0));
  EXPECT_TRUE(back.get());
}

TEST(Reverse, SharedMemoryHasNoReverse) {
  const auto plugin = loadBpsPlugin(Carrier::kMemory);
  BothWays both = connectBothWays(*plugin);
  EXPECT_FALSE(both.back.sender || both.back.receiver);
  EXPECT_TRUE(manyMessages(both.out, 0));
}

TEST(Reverse, ClosingOneDirectionKeepsTheOther) {
  const auto plugin = loadBpsPlugin(Carrier::kTcp);
  BothWays both = connectBothWays(*plugin);
  both.back.sender.reset();
  std::vector<uint8_t> room(8);
  EXPECT_THAT(failureOf(*both.back.receiver, valueOf(both.back.receiver->irecv(room.data(), 8, nullptr))),
              testing::HasSubstr("closed the connection"));
  EXPECT_TRUE(manyMessages(both.out, 0));
  both.back.receiver.reset();
  EXPECT_TRUE(manyMessages(both.out, 50));
}

TEST(Reverse, ClosingBothDirectionsIsSeenByBothEnds) {
  const auto plugin = loadBpsPlugin(Carrier::kTcp);
  BothWays both = connectBothWays(*plugin);
  both.out.receiver.reset();
  both.back.sender.reset();
  std::vector<uint8_t> bytes(size_t{8} << 20);
  EXPECT_NE(failureOf(*both.out.sender, valueOf(both.out.sender->isend(bytes.data(), bytes.size(), nullptr))), "none");
  EXPECT_NE(failureOf(*both.back.receiver, valueOf(both.back.receiver->irecv(bytes.data(), 8, nullptr))), "none");
}

TEST(Reverse, ReverseMessageWakesASleeper) {
  const auto plugin = loadBpsPlugin(Carrier::kTcp);
  BothWays both = connectBothWays(*plugin);
  Comm& receiver = *both.back.receiver;
  std::vector<uint8_t> room(8);
  const Request receive = valueOf(receiver.irecv(room.data(), 8, nullptr));
  ASSERT_FALSE(valueOf(receiver.test(receive)).done);
  ASSERT_FALSE(valueOf(receiver.arm()));
  // Messages in the direction `out` must not wake the receiver of the direction `back`.
  EXPECT_TRUE(manyMessages(both.out, 0));
  pollfd sleeper{receiver.waitFd(), POLLIN, 0};
  EXPECT_EQ(::poll(&sleeper, 1, 0), 0);
  const std::vector<uint8_t> bytes = randomBytes(8, 1);
  const Request send = valueOf(both.back.sender->isend(bytes.data(), 8, nullptr));
  EXPECT_EQ(valueOf(finish(*both.back.sender, send)), 8U);
  EXPECT_EQ(::poll(&sleeper, 1, 20000), 1);
  EXPECT_EQ(valueOf(finish(receiver, receive)), 8U);
  EXPECT_EQ(room, bytes);
}

TEST(Reverse, MustBeRequestedOnceBeforeTheFirstMessage) {
  const auto plugin = loadBpsPlugin(Carrier::kTcp);
  BothWays both = connectBothWays(*plugin);
  EXPECT_FALSE(both.out.sender->reverse().ok());
  EXPECT_FALSE(both.back.sender->reverse().ok());
  CommPair used = connectPair(*plugin);
  EXPECT_TRUE(transfers(used, randomBytes(8, 1), 8));
  EXPECT_FALSE(used.sender->reverse().ok());
  EXPECT_FALSE(used.receiver->reverse().ok());
}

}  // namespace
}  // namespace bps::test
