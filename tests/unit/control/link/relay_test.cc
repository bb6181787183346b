// Tests jobs that reach their server through a relay without the key. The relay must be able to end the job, but must
// not have any other effect on it.
#include "tests/unit/control/link/relay.h"

#include "tests/unit/control/fake_server.h"

namespace bps::test {
namespace {

Env through(const Relay& relay) {
  Env env = localEnv();
  env.servers = relay.name();
  return env;
}

TEST(Relay, ForwardingRelayIsHarmless) {
  TestServer server;
  Relay relay(server.name(), {});
  Cluster cluster(2, through(relay));
  for (size_t r = 0; r < 2; ++r) ASSERT_TRUE(cluster[r].joined.ok()) << cluster[r].joined.message();
  ASSERT_EQ(cluster.plane(1).roster().presentServers(), 1U);
  exchangeHandles(cluster);
  cluster.leave();
}

class RelayAttack : public testing::TestWithParam<Relay::Attack> {};

// The server sends its input to the exchange as soon as the job begins. So a rank may receive the failure while it
// still joins.
TEST_P(RelayAttack, EndsTheJobWithTheExpectedError) {
  TestServer server;
  Relay relay(server.name(), {GetParam(), MessageType::kControlOpInput});
  Cluster cluster(2, through(relay));
  cluster.each([](uint32_t r, ControlPlane& plane) {
    std::vector<Blob> handles;
    for (size_t e = 0; e < plane.roster().endpoints(); ++e) handles.push_back(FakeRunner::handle(r, e));
    [[maybe_unused]] const bool swapped = plane.exchange(handles, soon()).ok() && plane.barrier(soon()).ok();
  });
  for (size_t r = 0; r < 2; ++r) {
    const std::string text = cluster[r].joined.ok() ? cluster[r].failures.wait() : cluster[r].joined.message();
    EXPECT_TRUE(contains(text, "the connection with server " + relay.name() + ": frame ")) << text;
    EXPECT_TRUE(contains(text, "is not authentic: something between the two changes or injects messages")) << text;
  }
  EXPECT_TRUE(relay.acted());
}

INSTANTIATE_TEST_SUITE_P(All, RelayAttack,
                         testing::Values(Relay::Attack::kFlip, Relay::Attack::kDrop, Relay::Attack::kRepeat,
                                         Relay::Attack::kForge));

TEST(Relay, TamperedHandshakeExcludesTheServer) {
  for (MessageType at : {MessageType::kChallenge, MessageType::kWelcome}) {
    TestServer server;
    Relay relay(server.name(), {Relay::Attack::kFlip, at});
    Cluster cluster(2, through(relay));
    EXPECT_TRUE(relay.acted());
    for (size_t r = 0; r < 2; ++r) {
      if (cluster[r].joined.ok()) {
        EXPECT_EQ(cluster.plane(r).roster().presentServers(), 0U);
      } else {
        EXPECT_TRUE(contains(cluster[r].joined.message(), relay.name())) << cluster[r].joined.message();
      }
    }
    EXPECT_EQ(server.runner.opened(), 0);
  }
}

}  // namespace
}  // namespace bps::test
