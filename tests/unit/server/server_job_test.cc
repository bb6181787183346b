// Tests how the jobs of a server end, and that events outside a job do not disturb it.
#include <fstream>

#include "src/base/io/host_lookup.h"
#include "tests/unit/control/fake_server.h"
#include "tests/unit/control/raw_peer.h"

namespace bps::test {
namespace {

TEST(ServerJob, GoesOnWithoutADeadServer) {
  auto dying = std::make_unique<TestServer>();
  TestServer other;
  Cluster cluster(3, withServers({dying.get(), &other}));
  cluster.expectJoined();
  exchangeHandles(cluster);
  const std::string name = dying->name();
  dying.reset();
  for (size_t r = 0; r < 3; ++r) {
    const std::vector<ServerEvent> losses = cluster[r].failures.waitForLosses(1);
    ASSERT_EQ(losses.size(), 1U);
    EXPECT_EQ(losses[0].server, 0U);
    EXPECT_EQ(losses[0].text, "server " + name + ": the server was stopped");
    EXPECT_EQ(cluster[r].failures.count(), 0);
  }
  EXPECT_EQ(other.runner.jobs().size(), 1U);
  cluster.leave();
  EXPECT_TRUE(other.runner.waitFinishing(1));
}

TEST(ServerJob, JobFailureReachesAllRanks) {
  TestServer server;
  Cluster cluster(3, withServers({&server}));
  cluster.expectJoined();
  exchangeHandles(cluster);
  server.runner.jobs()[0].events->failed(cluster.plane(0).roster().jobId,
                                         Status(Code::kInvalidUsage, "ranks 0 and 1 push different calls"));
  const std::string text = "server " + server.name() + ": ranks 0 and 1 push different calls";
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(cluster[r].failures.wait(1), text);
    EXPECT_EQ(cluster[r].failures.code(), Code::kInvalidUsage);
  }
  EXPECT_TRUE(server.runner.waitEmpty(1));
}

TEST(ServerJob, ClosesTheJobWhenARankDies) {
  TestServer server;
  Cluster cluster(3, withServers({&server}));
  cluster.expectJoined();
  exchangeHandles(cluster);
  cluster[2].plane.reset();
  EXPECT_TRUE(server.runner.waitEmpty(1));
}

TEST(ServerJob, ClosesTheJobWhenTheHubDies) {
  TestServer server;
  Cluster cluster(3, withServers({&server}));
  cluster.expectJoined();
  exchangeHandles(cluster);
  cluster[0].plane.reset();
  EXPECT_TRUE(server.runner.waitEmpty(1));
}

TEST(ServerJob, ServerThatNeverListensIsExcluded) {
  TestServer server;
  server.runner.neverListen();
  Cluster cluster(2, withServers({&server}));
  cluster.expectJoined();
  EXPECT_EQ(cluster.plane(0).roster().presentServers(), 0U);
  EXPECT_TRUE(server.runner.waitEmpty(1));
}

TEST(ServerJob, DrainsRefusesNewJobsAndEndsWithTheLast) {
  TestServer server;
  Cluster first(2, withServers({&server}));
  first.expectJoined();
  exchangeHandles(first);
  server.drain();
  Env env = withServers({&server}, 1);
  Cluster second(2, env);
  second.expectJoined();
  EXPECT_EQ(second.plane(0).roster().presentServers(), 0U);
  env.requireServers = true;
  Cluster third(2, env);
  EXPECT_TRUE(contains(third[0].joined.message(), "server is draining")) << third[0].joined.message();
  EXPECT_EQ(server.runner.jobs().size(), 1U);
  first.leave();
  server.runner.jobs()[0].events->ended(first.plane(0).roster().jobId);
  server.wait();
  for (size_t r = 0; r < 2; ++r) EXPECT_EQ(first[r].failures.count(), 0) << first[r].failures.wait(0);
}

TEST(ServerJob, RunsManyJobsIndependently) {
  TestServer server;
  const Env env = withServers({&server}, 5);
  Cluster a(2, env), b(2, env), c(3, env);
  for (Cluster* cluster : {&a, &b, &c}) {
    cluster->expectJoined();
    exchangeHandles(*cluster);
  }
  EXPECT_EQ(server.runner.jobs().size(), 3U);
  b[1].plane.reset();
  EXPECT_TRUE(contains(b[0].failures.wait(1), "rank 1 ("));
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(server.runner.jobs().size(), 2U);
  EXPECT_EQ(a[0].failures.count() + c[0].failures.count(), 0);
  a.leave();
  c.leave();
}

TEST(ServerJob, UnauthenticatedPeersDoNotDisturbAJob) {
  TestServer server;
  Cluster cluster(2, withServers({&server}, 3));
  cluster.expectJoined();
  exchangeHandles(cluster);
  const Address where = std::move(resolve(std::move(parseHostPort(server.name(), 1)).value(), soon())).value()[0];
  std::vector<UniqueFd> unauthenticated;
  for (int i = 0; i < 300; ++i) {
    unauthenticated.push_back(connectTo(where));
    const Blob garbage(static_cast<size_t>(i) * 7, static_cast<uint8_t>(i));
    if (i % 3 != 0) [[maybe_unused]]
      const auto sent = ::send(unauthenticated.back().get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
  }
  Cluster another(2, withServers({&server}, 6));
  another.expectJoined();
  EXPECT_EQ(another.plane(0).roster().presentServers(), 1U) << "silent connections are evicted";
  EXPECT_EQ(cluster[0].failures.count(), 0);
  cluster.leave();
  another.leave();
}

// `bps-server --check` asks a server for its load. The server answers only before a job is open on the connection.
TEST(ServerJob, LoadIsReportedOnlyBeforeAJobIsOpen) {
  TestServer server;
  const Env env = withServers({&server});
  const Address where = std::move(resolve(std::move(parseHostPort(server.name(), 1)).value(), soon())).value()[0];
  const auto connected = [&](uint64_t job) {
    ConnectingHandshake handshake(std::make_unique<ControlSocket>(connectTo(where)),
                                  {std::move(serverKey(env)).value(), true, 1000}, Purpose::kServer, job);
    EXPECT_TRUE(finish(handshake).ok());
    Peer peer = handshake.take();
    EXPECT_EQ(nextFrame(*peer.socket).header.type, MessageType::kOffer);
    return peer;
  };
  Peer asks = connected(98);
  for (int i = 0; i < 3; ++i) {
    asks.socket->queue(MessageType::kCheck);
    const Frame frame = nextFrame(*asks.socket);
    ASSERT_EQ(frame.header.type, MessageType::kCheckReport);
    const CheckReport report = std::move(decode<CheckReport>(frame.payload)).value();
    EXPECT_EQ(report.jobs, 3U);
    EXPECT_EQ(report.maxJobs, server::ControlServer::kMaxJobs);
    EXPECT_EQ(report.bytesSummed, 1000U);
    EXPECT_EQ(report.freeDescriptors, 20U);
    EXPECT_EQ(report.freeBytes, 4096U);
  }
  Peer talks = connected(99);
  talks.socket->queue(MessageType::kCheck, {1});
  EXPECT_NE(nextFrame(*talks.socket, 1).header.type, MessageType::kCheckReport);
  Cluster cluster(2, env);
  cluster.expectJoined();
  EXPECT_EQ(cluster.plane(0).roster().presentServers(), 1U);
  cluster.leave();
}

TEST(ServerJob, HostileHubCannotHarmIt) {
  TestServer server;
  const Env env = withServers({&server});
  const Address where = std::move(resolve(std::move(parseHostPort(server.name(), 1)).value(), soon())).value()[0];
  const Key key = std::move(serverKey(env)).value();
  const auto tryFrame = [&](MessageType type, const Blob& payload) {
    ConnectingHandshake handshake(std::make_unique<ControlSocket>(connectTo(where)), {key, true, 1000},
                                  Purpose::kServer, 99);
    ASSERT_TRUE(finish(handshake).ok());
    Peer peer = handshake.take();
    EXPECT_EQ(nextFrame(*peer.socket).header.type, MessageType::kOffer);
    peer.socket->queue(type, payload);
    EXPECT_NE(nextFrame(*peer.socket, 1).header.type, MessageType::kJobOpened);
  };
  tryFrame(MessageType::kOpenJob, {1, 2, 3});
  tryFrame(MessageType::kOpenJob, encode(OpenJob{1, 7, {9, 9}}));
  tryFrame(MessageType::kControlOpResult, encode(ControlOpResult{}));
  tryFrame(MessageType::kBegin, {});
  tryFrame(MessageType::kJoin, {});
  tryFrame(MessageType::kGoodbye, {});
  tryFrame(static_cast<MessageType>(999), Blob(1000));
  EXPECT_EQ(server.runner.opened(), 0);
  Cluster cluster(2, env);
  cluster.expectJoined();
  EXPECT_EQ(cluster.plane(0).roster().presentServers(), 1U);
  cluster.leave();
}

TEST(ServerJob, SleepsWithoutATimerWhileIdle) {
  TestServer server;
  {
    Cluster cluster(2, withServers({&server}, 1));
    cluster.expectJoined();
    cluster[0].plane.reset();
  }
  ASSERT_TRUE(server.runner.waitEmpty(1));
  std::this_thread::sleep_for(1200ms);  // waits until the failed job's connections are closed
  const auto wakeUps = [&] {
    std::ifstream status("/proc/self/task/" + std::to_string(server.task()) + "/status");
    const std::string text{std::istreambuf_iterator<char>(status), std::istreambuf_iterator<char>()};
    const std::string key = "\nvoluntary_ctxt_switches:";
    return std::stol(text.substr(text.find(key) + key.size()));
  };
  const long before = wakeUps();
  std::this_thread::sleep_for(500ms);
  EXPECT_EQ(wakeUps(), before);
}

}  // namespace
}  // namespace bps::test
