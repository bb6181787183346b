// Tests how servers join a communicator, and when they are excluded from it.
#include <filesystem>
#include <fstream>

#include "tests/support/temp_path.h"
#include "tests/unit/control/fake_server.h"
#include "tests/unit/control/raw_peer.h"

namespace bps::test {
namespace {

TEST(Server, OpensAJobExchangesHandlesAndClosesIt) {
  TestServer a, b;
  Cluster cluster(3, withServers({&a, &b}));
  cluster.expectJoined();
  const Roster& roster = cluster.plane(2).roster();
  ASSERT_EQ(roster.servers.size(), 2U);
  EXPECT_EQ(roster.servers[0].name, a.name());
  EXPECT_EQ(roster.endpointName(4), "server " + b.name());
  exchangeHandles(cluster);
  const std::vector<FakeRunner::Job> jobs = b.runner.jobs();
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(encode(jobs[0].spec.roster), encode(roster));
  EXPECT_EQ(jobs[0].spec.endpoint, 4U);
  for (size_t e = 0; e < 5; ++e) EXPECT_EQ(jobs[0].received[e], FakeRunner::handle(e, 4));
  const uint64_t id = roster.jobId;
  cluster.leave();
  for (TestServer* server : {&a, &b})
    ASSERT_TRUE(server->runner.waitFinishing()) << "the hub's goodbye says that nothing more will come";
  EXPECT_EQ(a.runner.jobs().size(), 1U) << "after the hub's goodbye the job goes on until it says that it has ended";
  for (TestServer* server : {&a, &b}) server->runner.jobs()[0].events->ended(id);
  EXPECT_TRUE(a.runner.waitEmpty(1));
  EXPECT_TRUE(b.runner.waitEmpty(1));
  for (size_t r = 0; r < 3; ++r) EXPECT_EQ(cluster[r].failures.count(), 0);
}

TEST(Server, ClosesAJobWhoseLanesStayOpenAfterTheTimeOut) {
  TestServer server;
  Cluster cluster(2, withServers({&server}, 0.6));
  cluster.expectJoined();
  exchangeHandles(cluster);
  cluster.leave();
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(server.runner.jobs().size(), 1U);
  EXPECT_TRUE(server.runner.waitEmpty(1));
}

TEST(Server, IsNotUsedOnOneMachine) {
  TestServer server;
  Cluster cluster(3, withServers({&server}), [](uint32_t) { return "one"; });
  cluster.expectJoined();
  EXPECT_EQ(cluster.plane(0).roster().presentServers(), 0U);
  EXPECT_EQ(server.runner.opened(), 0);
  cluster.leave();
}

TEST(Server, RequiredServersOnOneMachineAreAnError) {
  Env env = localEnv();
  env.servers = freeAddress().text();
  env.requireServers = true;
  Cluster cluster(2, env, [](uint32_t) { return "one"; });
  const std::string text = cluster[1].joined.message();
  EXPECT_TRUE(contains(text, "BPS_REQUIRE_SERVERS=1, but all ranks are on one machine")) << text;
  EXPECT_STREQ(cluster[0].joined.message(), text.c_str());
}

TEST(Server, StartedAfterTheRanksIsUsed) {
  const Address where = freeAddress();
  Env env = localEnv(3);
  env.servers = where.text();
  std::unique_ptr<TestServer> server;
  std::jthread late([&] {
    std::this_thread::sleep_for(500ms);
    server = std::make_unique<TestServer>(localEnv(), where);
  });
  Cluster cluster(2, env);
  late.join();
  cluster.expectJoined();
  EXPECT_EQ(cluster.plane(1).roster().presentServers(), 1U);
  cluster.leave();
}

TEST(Server, UnreachableServerIsExcludedInTime) {
  TestServer there;
  Env env = withServers({&there}, 1);
  env.servers += "," + freeAddress().text();
  const auto start = Deadline::Clock::now();
  Cluster cluster(2, env);
  cluster.expectJoined();
  EXPECT_LT(Deadline::Clock::now() - start, 900ms);
  ASSERT_EQ(cluster.plane(1).roster().presentServers(), 1U);
  EXPECT_EQ(cluster.plane(1).roster().servers[0].name, there.name());
  exchangeHandles(cluster);
  cluster.leave();
}

TEST(Server, UnreachableServerIsAnErrorWhenRequired) {
  Env env = localEnv(0.8);
  env.servers = freeAddress().text();
  env.requireServers = true;
  Cluster cluster(2, env);
  const std::string text = cluster[1].joined.message();
  EXPECT_TRUE(contains(text, "server " + env.servers + " cannot be used: cannot connect to")) << text;
  EXPECT_TRUE(contains(text, "BPS_REQUIRE_SERVERS")) << text;
  EXPECT_STREQ(cluster[0].joined.message(), text.c_str());
}

TEST(Server, RefusingServerIsExcludedAndTheOthersReopenTheJob) {
  TestServer a, b, c;
  b.runner.refuse("no memory for 2 ranks");
  Cluster cluster(2, withServers({&a, &b, &c}));
  cluster.expectJoined();
  ASSERT_EQ(cluster.plane(1).roster().presentServers(), 2U);
  exchangeHandles(cluster);
  for (TestServer* server : {&a, &c}) {
    EXPECT_EQ(server->runner.opened(), 2);
    const auto jobs = server->runner.jobs();
    ASSERT_EQ(jobs.size(), 1U);
    EXPECT_EQ(encode(jobs[0].spec.roster), encode(cluster.plane(0).roster()));
  }
  EXPECT_EQ(c.runner.jobs()[0].spec.endpoint, 4U) << "the excluded server keeps its place";
  cluster.leave();
}

Env withAnotherKey(const TestServer& server) {
  Env env = withServers({&server});
  env.keyFile = tempPath("other_key");
  std::ofstream(env.keyFile) << "another key of more than sixteen bytes";
  std::filesystem::permissions(env.keyFile, std::filesystem::perms(0600));
  return env;
}

TEST(Server, ServerWithAnotherKeyIsExcluded) {
  TestServer server;
  Cluster cluster(2, withAnotherKey(server));
  cluster.expectJoined();
  EXPECT_EQ(cluster.plane(1).roster().presentServers(), 0U);
  cluster.leave();
}

TEST(Server, ServerWithAnotherKeyIsNamedWhenRequired) {
  TestServer server;
  Env env = withAnotherKey(server);
  env.requireServers = true;
  Cluster cluster(2, env);
  const std::string text = cluster[1].joined.message();
  EXPECT_TRUE(contains(text, "server " + server.name() + " cannot be used: ")) << text;
  EXPECT_TRUE(contains(text, "authentication failed")) << text;
  EXPECT_TRUE(contains(text, "BPS_KEY_FILE")) << text;
  EXPECT_STREQ(cluster[0].joined.message(), text.c_str());
}

// A process without the key may listen on a server's port, and may refuse the connection with any text. A communicator
// that does not require servers must start without this process.
TEST(Server, UnauthenticatedRefusalIsTruncated) {
  for (const bool required : {false, true}) {
    Env env = localEnv(2);
    env.requireServers = required;
    const UniqueFd listener = std::move(listenOn(loopback())).value();
    env.servers = std::move(localAddress(listener.get())).value().text();
    std::jthread impostor([&] {
      pollfd waiting{listener.get(), POLLIN, 0};
      ASSERT_EQ(::poll(&waiting, 1, 2000), 1);
      ControlSocket socket(std::move(*std::move(acceptFrom(listener.get())).value()));
      socket.queue(Refusal{Refusal::Kind::kMismatch, Code::kInvalidArgument,
                           "authentication failed:\n\x1b[2Jgo away" + std::string(900, 'x')});
      while (!socket.broken()) nextFrame(socket, 2);
    });
    Cluster cluster(2, env);
    impostor.join();
    if (!required) cluster.expectJoined();
    const std::string text = cluster[1].joined.message();
    if (required) {
      EXPECT_TRUE(contains(text, "refuses the connection and says \"authentication failed:??[2Jgo awayxxx")) << text;
      EXPECT_LT(text.size(), 500U);
    }
  }
}

TEST(Server, MissingKeyFileIsReportedOnEveryRank) {
  TestServer server;
  Env env = withServers({&server}, 3);
  env.keyFile.clear();
  const auto start = Deadline::Clock::now();
  Cluster cluster(3, env);
  EXPECT_LT(Deadline::Clock::now() - start, 1500ms);
  for (size_t r = 0; r < 3; ++r)
    EXPECT_TRUE(contains(cluster[r].joined.message(), "set BPS_KEY_FILE")) << cluster[r].joined.message();
}

TEST(Server, UnresolvableServerIsExcluded) {
  TestServer there;
  Env env = withServers({&there});
  env.servers += ",no.such.host.invalid:7700";
  Cluster cluster(2, env);
  cluster.expectJoined();
  ASSERT_EQ(cluster.plane(1).roster().presentServers(), 1U);
  EXPECT_EQ(cluster.plane(1).roster().servers[0].name, there.name());
  cluster.leave();
}

TEST(Server, UnresolvableServerFailsAllRanksWhenRequired) {
  Env env = localEnv(2);
  env.servers = "no.such.host.invalid:7700";
  env.requireServers = true;
  Cluster cluster(newId(env), 3, env, Cluster::oneMachinePerRank, {2});
  for (size_t r = 0; r < 2; ++r)
    EXPECT_TRUE(contains(cluster[r].joined.message(), "no.such.host.invalid")) << cluster[r].joined.message();
}

}  // namespace
}  // namespace bps::test
