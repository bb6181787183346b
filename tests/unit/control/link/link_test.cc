// Tests Link: when heartbeats are sent.
#include "src/control/link/link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

#include "tests/unit/control/raw_peer.h"

namespace bps::test {
namespace {

constexpr uint32_t kTimeoutMs = 60000;  // a heartbeat every 6 s

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
    near = std::make_unique<Link>(left.take(), "peer", kTimeoutMs);
    far = std::make_unique<Link>(right.take(), "peer", kTimeoutMs);
  }

  // Returns the number of heartbeats that `far` has received. A frame that `near` sends after its step() tells that
  // everything which step() has sent has arrived.
  uint64_t heartbeats() {
    EXPECT_TRUE(near->step({}).ok());
    near->send(MessageType::kGoodbye);
    for (const Deadline deadline = soon(10); !deadline.passed();) {
      PollSet set;
      near->watch(set);
      far->watch(set);
      EXPECT_TRUE(set.wait().ok());
      EXPECT_TRUE(near->step(set).ok());
      EXPECT_TRUE(far->step(set).ok());
      Result<std::optional<Frame>> frame = far->next();
      EXPECT_TRUE(frame.ok());
      if (!frame.ok() || std::move(frame).value()) return far->heartbeats();
    }
    ADD_FAILURE() << "the frame does not arrive";
    return 0;
  }

  std::unique_ptr<Link> near, far;
};

TEST(Link, AHeartbeatIsSentAtOnceIfTheWaitInItChanges) {
  Links links;
  links.near->setHeartbeat({1, 0, Heartbeat::kNobody});
  EXPECT_EQ(links.heartbeats(), 0U) << "the first heartbeat is due after 6 s";
  links.near->setHeartbeat({2, 0, Heartbeat::kNobody});
  EXPECT_EQ(links.heartbeats(), 0U) << "a new number of calls can wait";
  links.near->setHeartbeat({2, 1, 5});
  EXPECT_EQ(links.heartbeats(), 1U);
  EXPECT_EQ(links.far->heartbeat().waitsFor, 5U);
  links.near->setHeartbeat({2, 1, 5});
  EXPECT_EQ(links.heartbeats(), 1U) << "the same wait";
  links.near->setHeartbeat({2, 0, Heartbeat::kNobody});
  EXPECT_EQ(links.heartbeats(), 2U) << "the wait has ended";
}

}  // namespace
}  // namespace bps::test
