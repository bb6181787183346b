// Ranks with summation servers, whose jobs are played by FakeRunner.
#include <sys/resource.h>

#include <fstream>

#include "tests/unit/control/cluster.h"
#include "tests/unit/control/raw_peer.h"

namespace bps::test {
namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Env withServers(const std::vector<const TestServer*>& servers, double timeout = 2) {
  Env env = localEnv(timeout);
  for (const TestServer* server : servers) env.servers += (env.servers.empty() ? "" : ",") + server->name();
  return env;
}

void exchangeAll(Cluster& cluster) {
  cluster.each([](uint32_t r, ControlPlane& plane) {
    std::vector<Blob> handles;
    for (size_t e = 0; e < plane.roster().endpoints(); ++e) handles.push_back(FakeRunner::handle(r, e));
    Result<std::vector<Blob>> swapped = plane.exchange(handles, soon());
    ASSERT_TRUE(swapped.ok()) << swapped.error().message();
    const std::vector<Blob> got = std::move(swapped).value();
    for (size_t e = 0; e < got.size(); ++e) EXPECT_EQ(got[e], FakeRunner::handle(e, r));
    const Status barrier = plane.barrier(soon());
    EXPECT_TRUE(barrier.ok()) << barrier.message();
    EXPECT_TRUE(plane.barrier(soon()).ok()) << "later barriers are the ranks' own";
  });
}

TEST(Server, OpensTheJobExchangesHandlesAndEndsWithIt) {
  TestServer a, b;
  Cluster cluster(3, withServers({&a, &b}));
  cluster.expectJoined();
  const Roster& roster = cluster.plane(2).roster();
  ASSERT_EQ(roster.servers.size(), 2U);
  EXPECT_EQ(roster.servers[0].name, a.name());
  EXPECT_EQ(roster.endpointName(4), "server " + b.name());
  exchangeAll(cluster);
  const std::vector<FakeRunner::Job> jobs = b.runner.jobs();
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(encode(jobs[0].spec.roster), encode(roster));
  EXPECT_EQ(jobs[0].spec.endpoint, 4U);
  for (size_t e = 0; e < 5; ++e) EXPECT_EQ(jobs[0].received[e], FakeRunner::handle(e, 4));
  const uint64_t id = roster.jobId;
  cluster.leave();
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(a.runner.jobs().size(), 1U) << "after the hub's goodbye the job goes on until its lanes end";
  for (TestServer* server : {&a, &b}) server->runner.jobs()[0].events->ended(id);
  EXPECT_TRUE(a.runner.waitEmpty(1));
  EXPECT_TRUE(b.runner.waitEmpty(1));
  for (size_t r = 0; r < 3; ++r) EXPECT_EQ(cluster[r].heard.count(), 0);
}

TEST(Server, AJobWhoseLanesDoNotEndIsClosedAfterTheTimeOut) {
  TestServer server;
  Cluster cluster(2, withServers({&server}, 0.6));
  cluster.expectJoined();
  exchangeAll(cluster);
  cluster.leave();
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(server.runner.jobs().size(), 1U);
  EXPECT_TRUE(server.runner.waitEmpty(1));
}

TEST(Server, OneMachineNeedsNone) {
  TestServer server;
  Cluster cluster(3, withServers({&server}), [](uint32_t) { return "one"; });
  cluster.expectJoined();
  EXPECT_TRUE(cluster.plane(0).roster().servers.empty());
  EXPECT_EQ(server.runner.opened(), 0);
  cluster.leave();
}

TEST(Server, ThatStartsLaterIsWaitedFor) {
  const Address where = freeAddress();
  Env env = localEnv(3);
  env.servers = where.text();
  std::unique_ptr<TestServer> server;
  std::thread late([&] {
    std::this_thread::sleep_for(500ms);
    server = std::make_unique<TestServer>(localEnv(), where);
  });
  Cluster cluster(2, env);
  late.join();
  cluster.expectJoined();
  EXPECT_EQ(cluster.plane(1).roster().servers.size(), 1U);
  cluster.leave();
}

TEST(Server, ThatIsNotThereIsLeftOutInTime) {
  TestServer there;
  Env env = withServers({&there}, 1);
  env.servers += "," + freeAddress().text();
  const auto start = Deadline::Clock::now();
  Cluster cluster(2, env);
  cluster.expectJoined();
  EXPECT_LT(Deadline::Clock::now() - start, 900ms);
  ASSERT_EQ(cluster.plane(1).roster().servers.size(), 1U);
  EXPECT_EQ(cluster.plane(1).roster().servers[0].name, there.name());
  exchangeAll(cluster);
  cluster.leave();
}

TEST(Server, ThatIsNotThereIsAnErrorWhenRequired) {
  Env env = localEnv(0.8);
  env.servers = freeAddress().text();
  env.requireServers = true;
  Cluster cluster(2, env);
  const std::string text = cluster[1].joined.message();
  EXPECT_TRUE(contains(text, "server " + env.servers + " cannot be used: cannot connect to")) << text;
  EXPECT_TRUE(contains(text, "BPS_REQUIRE_SERVERS")) << text;
  EXPECT_STREQ(cluster[0].joined.message(), text.c_str());
}

TEST(Server, ThatRefusesTheJobIsLeftOutAndTheOthersOpenItAnew) {
  TestServer a, b, c;
  b.runner.refuse("no memory for 2 ranks");
  Cluster cluster(2, withServers({&a, &b, &c}));
  cluster.expectJoined();
  ASSERT_EQ(cluster.plane(1).roster().servers.size(), 2U);
  exchangeAll(cluster);
  for (TestServer* server : {&a, &c}) {
    EXPECT_EQ(server->runner.opened(), 2);
    const auto jobs = server->runner.jobs();
    ASSERT_EQ(jobs.size(), 1U);
    EXPECT_EQ(encode(jobs[0].spec.roster), encode(cluster.plane(0).roster()));
  }
  EXPECT_EQ(c.runner.jobs()[0].spec.endpoint, 3U);
  cluster.leave();
}

TEST(Server, WithAnotherKeyIsAnErrorThatNamesIt) {
  TestServer server;
  Env env = withServers({&server});
  const std::string path = testing::TempDir() + "bps_other_key";
  std::ofstream(path) << "another key of more than sixteen bytes";
  env.keyFile = path;
  Cluster cluster(2, env);
  const std::string text = cluster[1].joined.message();
  EXPECT_TRUE(contains(text, "server " + server.name() + " refuses: authentication failed")) << text;
  EXPECT_TRUE(contains(text, "BPS_KEY_FILE")) << text;
  EXPECT_STREQ(cluster[0].joined.message(), text.c_str());
}

TEST(Server, WithoutAKeyFileRankZeroSaysWhatToSet) {
  TestServer server;
  Env env = withServers({&server}, 0.6);
  env.keyFile.clear();
  Cluster cluster(2, env);
  EXPECT_TRUE(contains(cluster[0].joined.message(), "set BPS_KEY_FILE")) << cluster[0].joined.message();
}

TEST(Server, ThatDiesIsNamedOnAllRanksAndTheOtherServersCloseTheJob) {
  auto dying = std::make_unique<TestServer>();
  TestServer other;
  Cluster cluster(3, withServers({dying.get(), &other}));
  cluster.expectJoined();
  exchangeAll(cluster);
  const std::string name = dying->name();
  dying.reset();
  const std::string text = cluster[0].heard.wait(1);
  EXPECT_EQ(text, "server " + name + ": the server was stopped");
  EXPECT_EQ(cluster[1].heard.wait(1), text);
  EXPECT_EQ(cluster[2].heard.wait(1), text);
  EXPECT_TRUE(other.runner.waitEmpty(1));
}

TEST(Server, WhoseJobFailsTellsEverybodyWhy) {
  TestServer server;
  Cluster cluster(3, withServers({&server}));
  cluster.expectJoined();
  exchangeAll(cluster);
  server.runner.jobs()[0].events->failed(cluster.plane(0).roster().jobId,
                                         Status(Code::kInvalidUsage, "ranks 0 and 1 push different calls"));
  const std::string text = "server " + server.name() + ": ranks 0 and 1 push different calls";
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(cluster[r].heard.wait(1), text);
    EXPECT_EQ(cluster[r].heard.code(), Code::kInvalidUsage);
  }
  EXPECT_TRUE(server.runner.waitEmpty(1));
}

TEST(Server, ClosesTheJobWhenARankDies) {
  TestServer server;
  Cluster cluster(3, withServers({&server}));
  cluster.expectJoined();
  exchangeAll(cluster);
  cluster[2].plane.reset();
  EXPECT_TRUE(server.runner.waitEmpty(1));
}

TEST(Server, ClosesTheJobWhenTheHubDies) {
  TestServer server;
  Cluster cluster(3, withServers({&server}));
  cluster.expectJoined();
  exchangeAll(cluster);
  cluster[0].plane.reset();
  EXPECT_TRUE(server.runner.waitEmpty(1));
}

TEST(Server, WhoseJobNeverListensIsNamed) {
  TestServer server;
  server.runner.neverListen();
  Cluster cluster(2, withServers({&server}));
  cluster.expectJoined();
  cluster.each([&](uint32_t, ControlPlane& plane) {
    Result<std::vector<Blob>> swapped = plane.exchange({{1}, {2}, {3}}, soon(0.5));
    ASSERT_FALSE(swapped.ok());
    EXPECT_TRUE(contains(swapped.error().message(),
                         "exchange of handles: 1 of 3 participants missing: server " + server.name()))
        << swapped.error().message();
  });
}

TEST(Server, DrainsRefusesNewJobsAndEndsWithTheLast) {
  TestServer server;
  Cluster first(2, withServers({&server}));
  first.expectJoined();
  exchangeAll(first);
  server.drain();
  Env env = withServers({&server}, 1);
  Cluster second(2, env);
  second.expectJoined();
  EXPECT_TRUE(second.plane(0).roster().servers.empty());
  env.requireServers = true;
  Cluster third(2, env);
  EXPECT_TRUE(contains(third[0].joined.message(), "server is draining")) << third[0].joined.message();
  EXPECT_EQ(server.runner.jobs().size(), 1U);
  first.leave();
  server.runner.jobs()[0].events->ended(first.plane(0).roster().jobId);
  server.wait();
  for (size_t r = 0; r < 2; ++r) EXPECT_EQ(first[r].heard.count(), 0) << first[r].heard.wait(0);
}

TEST(Server, RunsManyJobsApart) {
  TestServer server;
  const Env env = withServers({&server}, 5);
  Cluster a(2, env), b(2, env), c(3, env);
  for (Cluster* cluster : {&a, &b, &c}) {
    cluster->expectJoined();
    exchangeAll(*cluster);
  }
  EXPECT_EQ(server.runner.jobs().size(), 3U);
  b[1].plane.reset();
  EXPECT_TRUE(contains(b[0].heard.wait(1), "rank 1 ("));
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(server.runner.jobs().size(), 2U);
  EXPECT_EQ(a[0].heard.count() + c[0].heard.count(), 0);
  a.leave();
  c.leave();
}

TEST(Server, StrangersDoNotDisturbAJob) {
  TestServer server;
  Cluster cluster(2, withServers({&server}, 3));
  cluster.expectJoined();
  exchangeAll(cluster);
  const Address where = std::move(resolve(std::move(parseHostPort(server.name(), 1)).value(), soon())).value()[0];
  std::vector<UniqueFd> strangers;
  for (int i = 0; i < 300; ++i) {
    strangers.push_back(connectTo(where));
    const Blob garbage(static_cast<size_t>(i) * 7, static_cast<uint8_t>(i));
    if (i % 3 != 0) [[maybe_unused]]
      const auto sent = ::send(strangers.back().get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
  }
  Cluster another(2, withServers({&server}, 6));
  another.expectJoined();
  EXPECT_EQ(another.plane(0).roster().servers.size(), 1U) << "slow strangers give way";
  EXPECT_EQ(cluster[0].heard.count(), 0);
  cluster.leave();
  another.leave();
}

TEST(Server, AHubOfItsOwnMakingCannotHarmIt) {
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
  tryFrame(MessageType::kRoundAnswer, encode(RoundAnswer{}));
  tryFrame(MessageType::kBegin, {});
  tryFrame(MessageType::kJoin, {});
  tryFrame(MessageType::kGoodbye, {});
  tryFrame(static_cast<MessageType>(999), Blob(1000));
  EXPECT_EQ(server.runner.opened(), 0);
  Cluster cluster(2, env);
  cluster.expectJoined();
  EXPECT_EQ(cluster.plane(0).roster().servers.size(), 1U);
  cluster.leave();
}

TEST(Server, SleepsWithoutATimerWhileIdle) {
  TestServer server;
  {
    Cluster cluster(2, withServers({&server}, 1));
    cluster.expectJoined();
    cluster[0].plane.reset();
  }
  ASSERT_TRUE(server.runner.waitEmpty(1));
  std::this_thread::sleep_for(1200ms);  // until the last farewell is over
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  std::this_thread::sleep_for(500ms);
  ::getrusage(RUSAGE_SELF, &after);
  EXPECT_LE(after.ru_nvcsw - before.ru_nvcsw, 5) << "wake-ups in half a second";
}

}  // namespace
}  // namespace bps::test
