// Tests how ranks join a communicator: the agreed roster, the control operations, and every error of a joining rank.
#include <filesystem>

#include "src/control/rendezvous/rendezvous_server.h"
#include "tests/unit/control/cluster.h"

namespace bps::test {
namespace {

void expectSameRosters(Cluster& cluster) {
  const Blob first = encode(cluster.plane(0).roster());
  for (size_t r = 1; r < cluster.size(); ++r) EXPECT_EQ(encode(cluster.plane(r).roster()), first);
}

TEST(Join, AllRanksGetTheSameRosterWithMachinesInOrderOfTheirLowestRank) {
  Cluster cluster(5, localEnv(), [](uint32_t r) { return r == 1 || r == 4 ? "b" : "a"; });
  cluster.expectJoined();
  expectSameRosters(cluster);
  const Roster& roster = cluster.plane(3).roster();
  ASSERT_EQ(roster.machines.size(), 2U);
  EXPECT_EQ(roster.machines[0].ranks, (std::vector<uint32_t>{0, 2, 3}));
  EXPECT_EQ(roster.machines[1].ranks, (std::vector<uint32_t>{1, 4}));
  EXPECT_EQ(roster.ranks[4].localRank, 1U);
  EXPECT_NE(roster.jobId, 0U);
  EXPECT_EQ(roster.settings.partitionBytes, localEnv().partitionBytes.value);
  EXPECT_EQ(roster.settings.timeoutMs, 2000U);
  cluster.leave();
}

TEST(Join, SingleRankStopsTheRendezvous) {
  const size_t roots = runningRendezvousServers();
  Cluster cluster(1);
  cluster.expectJoined();
  EXPECT_TRUE(cluster.plane(0).barrier(soon()).ok());
  Result<std::vector<Blob>> all = cluster.plane(0).gather({7}, soon());
  ASSERT_TRUE(all.ok());
  EXPECT_EQ(std::move(all).value(), std::vector<Blob>{{7}});
  Result<std::vector<Blob>> swapped = cluster.plane(0).exchange({{9}}, soon());
  ASSERT_TRUE(swapped.ok());
  EXPECT_EQ(std::move(swapped).value(), std::vector<Blob>{{9}});
  cluster.leave();
  const Deadline deadline = soon(1);
  while (runningRendezvousServers() > roots && !deadline.passed()) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(runningRendezvousServers(), roots);
}

TEST(Join, ControlOpsDeliverEveryRanksBytes) {
  constexpr uint32_t kRanks = 6;
  Cluster cluster(kRanks, localEnv(5), [](uint32_t r) { return std::to_string(r / 2); });
  cluster.expectJoined();
  cluster.each([](uint32_t r, ControlPlane& plane) {
    for (uint8_t turn = 0; turn < 5; ++turn) {
      Result<std::vector<Blob>> all = plane.gather(Blob(r * 1000, turn), soon());
      ASSERT_TRUE(all.ok()) << all.error().message();
      const std::vector<Blob> got = std::move(all).value();
      for (uint32_t i = 0; i < kRanks; ++i) EXPECT_EQ(got[i], Blob(i * 1000, turn));
      const auto machine = static_cast<uint8_t>(r / 2);
      const auto rail = static_cast<uint8_t>(r % 2);
      Result<std::vector<Blob>> swapped =
          plane.exchange({{machine, 0, rail}, {machine, 1, rail}, {machine, 2, rail}}, soon());
      ASSERT_TRUE(swapped.ok()) << swapped.error().message();
      EXPECT_EQ(std::move(swapped).value(),
                (std::vector<Blob>{{0, machine, rail}, {1, machine, rail}, {2, machine, rail}}));
      EXPECT_TRUE(plane.barrier(soon()).ok());
    }
  });
  cluster.leave();
  for (size_t r = 0; r < kRanks; ++r) EXPECT_EQ(cluster[r].failures.count(), 0);
}

TEST(Join, MissingRanksAreNamedOnAllRanksWithinTheTimeOut) {
  const Env env = localEnv(1);
  const auto start = Deadline::Clock::now();
  Cluster cluster(newId(env), 8, env, Cluster::oneMachinePerRank, {2, 5, 6});
  EXPECT_LT(Deadline::Clock::now() - start, 1900ms);
  const std::string text = cluster[0].joined.message();
  EXPECT_EQ(text.rfind("3 of 8 ranks missing: 2, 5-6; waited 1 s at 127.0.0.1:", 0), 0U) << text;
  for (uint32_t r : {1U, 3U, 4U, 7U}) EXPECT_EQ(cluster[r].joined.message(), text);
  EXPECT_EQ(cluster[0].joined.code(), Code::kRemote);
}

TEST(Join, InterruptEndsIt) {
  const Env env = localEnv(30);
  for (const uint32_t rank : {0U, 1U}) {
    const UniqueId id = newId(env);
    auto plane = std::move(ControlPlane::create(env, {id, rank, 3, "x"}, {})).value();
    std::jthread other([&] {
      std::this_thread::sleep_for(50ms);
      plane->interrupt();
    });
    const auto start = Deadline::Clock::now();
    const Status status = plane->join(soon(30));
    other.join();
    plane.reset();
    stopRendezvous(id.address);
    EXPECT_LT(Deadline::Clock::now() - start, 1500ms);
    EXPECT_STREQ(status.message(), "aborted");
  }
}

TEST(Join, MissingRankZeroIsReportedByTheRendezvous) {
  const Env env = localEnv(0.8);
  Cluster cluster(newId(env), 3, env, Cluster::oneMachinePerRank, {0});
  EXPECT_STREQ(cluster[1].joined.message(), "rank 0 has not come within 0.8 s");
  EXPECT_STREQ(cluster[2].joined.message(), "rank 0 has not come within 0.8 s");
}

TEST(Join, FixedRootMakesTheHubListenThere) {
  Env env = localEnv();
  env.root = freeAddress().text();
  for (int turn = 0; turn < 3; ++turn) {  // each cluster reuses the address at once
    Cluster cluster(3, env);
    cluster.expectJoined();
    EXPECT_EQ(newId(env).kind, UniqueId::Kind::kHub);
    cluster.leave();
  }
}

TEST(Join, TwoCommunicatorsShareAFixedRoot) {
  Env env = localEnv();
  env.root = freeAddress().text();
  Cluster first(2, env), second(2, env);
  first.expectJoined();
  second.expectJoined();
  EXPECT_NE(first.plane(0).roster().jobId, second.plane(0).roster().jobId);
  first.leave();
  second.leave();
}

TEST(Join, FixedRootWithoutRankZeroNamesTheAddress) {
  Env env = localEnv(0.6);
  env.root = freeAddress().text();
  Cluster cluster(newId(env), 2, env, Cluster::oneMachinePerRank, {0});
  EXPECT_EQ(cluster[1].joined.message(),
            "rank 0 did not come in time: cannot connect to " + env.root + ": Connection refused");
}

TEST(Join, PortInUseIsNamed) {
  Env env = localEnv(0.6);
  UniqueFd taken = std::move(listenOn(loopback())).value();
  env.root = std::move(localAddress(taken.get())).value().text();
  Cluster cluster(newId(env), 2, env, Cluster::oneMachinePerRank, {1});
  EXPECT_EQ(cluster[0].joined.message(), "cannot listen on " + env.root + ": Address already in use");
}

TEST(Join, DuplicateRankIsRefusedAndTheJoinSucceeds) {
  const Env env = localEnv(3);
  const UniqueId id = newId(env);
  std::vector<Status> second(1);
  std::unique_ptr<Cluster> cluster;
  std::jthread others(
      [&] { cluster = std::make_unique<Cluster>(id, 3, env, Cluster::oneMachinePerRank, std::set<uint32_t>{2}); });
  std::this_thread::sleep_for(200ms);
  auto duplicate = joinPlane(env, {id, 1, 3, "x"}, soon(2), {});
  ASSERT_FALSE(duplicate.ok());
  EXPECT_EQ(std::string(duplicate.error().message()).rfind("rank 1 is taken by rank 1 (", 0), 0U)
      << duplicate.error().message();
  FailureRecorder failures;
  auto last = joinPlane(env, {id, 2, 3, "y"}, soon(2), failures.sink());  // the rendezvous must still run
  EXPECT_TRUE(last.ok()) << last.error().message();
  others.join();
  EXPECT_TRUE((*cluster)[0].joined.ok());
  EXPECT_TRUE((*cluster)[1].joined.ok());
}

TEST(Join, RankOutOfRangeIsRefused) {
  const Env env = localEnv(1);
  auto joined = joinPlane(env, {newId(env), 4, 4, "x"}, soon(1), {});
  ASSERT_FALSE(joined.ok());
  EXPECT_STREQ(joined.error().message(), "rank 4 is out of range: the communicator has 4 ranks");
}

TEST(Join, RanksThatDisagreeOnTheirCountFailNamingBothCounts) {
  const Env env = localEnv(3);
  const UniqueId id = newId(env);
  std::unique_ptr<Cluster> cluster;
  std::jthread others([&] {
    cluster = std::make_unique<Cluster>(id, 4, env, Cluster::oneMachinePerRank, std::set<uint32_t>{2, 3});
  });
  std::this_thread::sleep_for(200ms);
  auto odd = joinPlane(env, {id, 2, 3, "x"}, soon(2), {});
  others.join();
  ASSERT_FALSE(odd.ok());
  const std::string text = odd.error().message();
  EXPECT_EQ(odd.error().code(), Code::kInvalidUsage);
  EXPECT_NE(text.find("rank 0 ("), std::string::npos) << text;
  EXPECT_NE(text.find("says 4, rank 2 ("), std::string::npos) << text;
  EXPECT_EQ((*cluster)[0].joined.message(), text);
  EXPECT_EQ((*cluster)[1].joined.message(), text);
}

TEST(Join, RankWithAnotherKeyIsRefused) {
  const Env env = localEnv(1.5);
  UniqueId id = newId(env);
  id.kind = UniqueId::Kind::kHub;
  id.address = freeAddress();
  UniqueId forged = id;
  forged.key[0] ^= 1;
  std::unique_ptr<Cluster> cluster;
  std::jthread others(
      [&] { cluster = std::make_unique<Cluster>(id, 2, env, Cluster::oneMachinePerRank, std::set<uint32_t>{1}); });
  auto other = joinPlane(env, {forged, 1, 2, "x"}, soon(2), {});
  others.join();
  ASSERT_FALSE(other.ok());
  EXPECT_NE(std::string(other.error().message()).find("authentication failed"), std::string::npos)
      << other.error().message();
  EXPECT_NE(std::string((*cluster)[0].joined.message()).find("1 of 2 ranks missing: 1"), std::string::npos);
}

TEST(Join, WorksWithoutAuthentication) {
  Env env = localEnv();
  env.auth = false;
  Cluster cluster(3, env);
  cluster.expectJoined();
  cluster.leave();
}

TEST(Join, RepeatedJoinsLeakNothing) {
  const auto count = [](const char* what) {
    size_t entries = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(what)) ++entries;
    return entries;
  };
  const auto once = [] {
    Cluster cluster(2, localEnv(5));
    cluster.expectJoined();
    cluster.leave();
  };
  once();
  const Deadline deadline = soon(3);
  const size_t fds = count("/proc/self/fd"), tasks = count("/proc/self/task");
  for (int i = 0; i < 100; ++i) once();
  while (runningRendezvousServers() > 0 && !deadline.passed()) std::this_thread::sleep_for(5ms);
  EXPECT_LE(count("/proc/self/fd"), fds);
  EXPECT_LE(count("/proc/self/task"), tasks);
}

}  // namespace
}  // namespace bps::test
