// Tests Link: when heartbeats are sent.
#include "src/control/link/link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "tests/unit/control/raw_peer.h"

namespace bps::test {
namespace {

constexpr uint32_t kTimeoutMs = 60000;  // a heartbeat every 6 s

std::unique_ptr<Link> linkTo(ConnectingHandshake& handshake) {
  return std::make_unique<Link>(handshake.take(), "peer", kTimeoutMs);
}

// Two connected Links.
struct Links {
  Links() {
    int fds[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    const Credentials credentials{{}, false, kTimeoutMs};
    ConnectingHandshake left(std::make_unique<ControlSocket>(UniqueFd(fds[0])), credentials, Purpose::kJoin, 7);
    AcceptingHandshake right(std::make_unique<ControlSocket>(UniqueFd(fds[1])), credentials, Purpose::kJoin, 7);
    std::jthread other([&] { EXPECT_TRUE(finish(right).ok()); });
    EXPECT_TRUE(finish(left).ok());
    other.join();
    near = linkTo(left);
    far = std::make_unique<Link>(right.take(), "peer", kTimeoutMs);
  }

  // Runs both event loops for a while, and returns the number of heartbeats that `far` has received.
  uint64_t run() {
    const Deadline deadline = Deadline::in(std::chrono::milliseconds(100));
    while (!deadline.passed())
      for (Link* link : {near.get(), far.get()}) {
        PollSet set;
        link->watch(set);
        set.wakeAt(Deadline::Clock::now() + std::chrono::milliseconds(5));
        EXPECT_TRUE(set.wait().ok());
        EXPECT_TRUE(link->step(set).ok());
        EXPECT_TRUE(link->next().ok());
      }
    return far->heartbeats();
  }

  std::unique_ptr<Link> near, far;
};

TEST(Link, AHeartbeatIsSentAtOnceIfTheWaitInItChanges) {
  Links links;
  links.near->setHeartbeat({1, 0, Heartbeat::kNobody});
  EXPECT_EQ(links.run(), 0U) << "the first heartbeat is due after 6 s";
  links.near->setHeartbeat({2, 0, Heartbeat::kNobody});
  EXPECT_EQ(links.run(), 0U) << "a new number of calls can wait";
  links.near->setHeartbeat({2, 1, 5});
  EXPECT_EQ(links.run(), 1U);
  EXPECT_EQ(links.far->heartbeat().waitsFor, 5U);
  links.near->setHeartbeat({2, 1, 5});
  EXPECT_EQ(links.run(), 1U) << "the same wait";
  links.near->setHeartbeat({2, 0, Heartbeat::kNobody});
  EXPECT_EQ(links.run(), 2U) << "the wait has ended";
}

}  // namespace
}  // namespace bps::test
