// Tests how the control plane reports failures. Every rank must receive a failure once and in time, and all ranks must
// receive the same text with the same culprit.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <numeric>

#include "tests/unit/control/cluster.h"
#include "tests/unit/control/raw_peer.h"

namespace bps::test {
namespace {

// Expects that every living rank receives the same failure text exactly once. Returns that text.
std::string sameText(Cluster& cluster, double seconds = 3) {
  std::string first;
  for (size_t r = 0; r < cluster.size(); ++r) {
    if (!cluster[r].plane) continue;
    const std::string text = cluster[r].failures.wait(seconds);
    if (first.empty()) first = text;
    EXPECT_EQ(text, first) << "on rank " << r;
    EXPECT_EQ(cluster[r].failures.count(), 1);
  }
  return first;
}

// The test destroys a control plane at varying times after a failure report has woken the control thread.
TEST(Failure, DestructionRightAfterAReportDoesNotHang) {
  std::packaged_task<void()> task([] {
    for (int i = 0; i < 2500; ++i) {
      Cluster cluster(1);
      cluster.plane(0).report(Status(Code::kInvalidUsage, "aborted by its user"));
      const auto until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(i % 500 * 300);
      while (std::chrono::steady_clock::now() < until) continue;
    }
  });
  std::future<void> done = task.get_future();
  std::jthread thread(std::move(task));
  const bool ended = done.wait_for(std::chrono::seconds(120)) == std::future_status::ready;
  EXPECT_TRUE(ended) << "a control plane does not end";
  if (!ended) std::abort();  // a blocked thread cannot be joined
  thread.join();
}

TEST(Failure, DeadRankIsNamedOnAllOthers) {
  Cluster cluster(5);
  cluster.expectJoined();
  const std::string name = cluster.plane(0).roster().rankName(3);
  cluster[3].plane.reset();
  EXPECT_EQ(sameText(cluster, 1), name + " ended without goodbye (connection closed)");
  EXPECT_EQ(cluster[1].failures.code(), Code::kRemote);
}

TEST(Failure, BlockedCallReturnsTheFailure) {
  Cluster cluster(4);
  cluster.expectJoined();
  std::jthread killer([&] {
    std::this_thread::sleep_for(100ms);
    cluster[2].plane.reset();
  });
  std::vector<std::jthread> blocked;
  for (size_t r : {0, 1, 3})
    blocked.emplace_back([&, r] {
      const Status status = cluster.plane(r).barrier(soon(3));
      EXPECT_TRUE(contains(status.message(), "rank 2 (")) << status.message();
      EXPECT_TRUE(contains(status.message(), "ended without goodbye")) << status.message();
      EXPECT_FALSE(cluster.plane(r).gather({1}, soon(1)).ok()) << "later calls fail at once";
    });
  killer.join();
  for (std::jthread& thread : blocked) thread.join();
}

TEST(Failure, DeadHubIsNamed) {
  Cluster cluster(4);
  cluster.expectJoined();
  const std::string name = cluster.plane(1).roster().rankName(0);
  cluster[0].plane.reset();
  EXPECT_EQ(sameText(cluster, 1), name + ", the hub, ended without goodbye (connection closed)");
}

TEST(Failure, SilentRankIsNamedAfterHalfTheTimeOut) {
  const Env env = localEnv(1);
  UniqueId id = newId(env);
  id.kind = UniqueId::Kind::kHub;
  id.address = freeAddress();
  std::unique_ptr<Cluster> cluster;
  std::jthread others(
      [&] { cluster = std::make_unique<Cluster>(id, 3, env, Cluster::oneMachinePerRank, std::set<uint32_t>{2}); });
  const Peer silent = joinManually(id.address, id, 2, 3, 1000);
  const auto start = Deadline::Clock::now();
  others.join();
  const std::string text = sameText(*cluster);
  const auto waited = Deadline::Clock::now() - start;
  EXPECT_TRUE(contains(text, "rank 2 (host7, pid 1234) has been silent for 0.5 s")) << text;
  EXPECT_GT(waited, 300ms);
  EXPECT_LT(waited, 900ms);
}

TEST(Failure, RankThatDiesDuringTheJoinEndsIt) {
  const Env env = localEnv(5);
  UniqueId id = newId(env);
  id.kind = UniqueId::Kind::kHub;
  id.address = freeAddress();
  std::unique_ptr<Cluster> cluster;
  std::jthread others([&] {
    cluster = std::make_unique<Cluster>(id, 4, env, Cluster::oneMachinePerRank, std::set<uint32_t>{2, 3});
  });
  std::this_thread::sleep_for(100ms);  // ranks 0 and 1 join first
  const auto start = Deadline::Clock::now();
  { const Peer dies = joinManually(id.address, id, 2, 4, 5000); }
  others.join();
  EXPECT_LT(Deadline::Clock::now() - start, 1s);
  EXPECT_TRUE(contains((*cluster)[0].joined.message(), "rank 2 (host7, pid 1234) ended without goodbye"));
  EXPECT_STREQ((*cluster)[1].joined.message(), (*cluster)[0].joined.message());
}

TEST(Failure, ReportReachesAllRanksWithTheSameText) {
  for (size_t reporter : {0, 2}) {
    Cluster cluster(3);
    cluster.expectJoined();
    cluster.plane(reporter).report(Status(Code::kInvalidUsage, "ranks 1 and 2 differ"));
    cluster.plane(1).report(Status(Code::kInternal, "a consequence"));
    const std::string text = sameText(cluster, 1);
    EXPECT_TRUE(text == "ranks 1 and 2 differ" || text == "a consequence");
    EXPECT_EQ(cluster[0].failures.code(), cluster[2].failures.code());
  }
}

TEST(Failure, ReportBeforeDestructionArrives) {
  Cluster cluster(3);
  cluster.expectJoined();
  cluster.plane(1).report(Status(Code::kInvalidUsage, "aborted by its user"));
  cluster[1].plane.reset();
  EXPECT_EQ(sameText(cluster, 1), "aborted by its user");
}

TEST(Failure, HubReportBeforeDestructionArrives) {
  Cluster cluster(3);
  cluster.expectJoined();
  cluster.plane(0).report(Status(Code::kInvalidUsage, "aborted by its user"));
  cluster[0].plane.reset();
  EXPECT_EQ(sameText(cluster, 1), "aborted by its user");
}

TEST(Goodbye, IsNoFailureInAnyOrder) {
  std::vector<size_t> order{0, 1, 2, 3};
  do {
    Cluster cluster(4, localEnv(4));
    cluster.expectJoined();
    for (size_t r : order) {
      const auto start = Deadline::Clock::now();
      cluster.plane(r).leave(soon(2));
      cluster[r].plane.reset();
      EXPECT_LT(Deadline::Clock::now() - start, 500ms);
    }
    for (size_t r = 0; r < 4; ++r) EXPECT_EQ(cluster[r].failures.count(), 0) << cluster[r].failures.wait(0);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Goodbye, IsVisibleToOtherMembers) {
  Cluster cluster(3);
  cluster.expectJoined();
  cluster.plane(1).leave(soon());
  const Deadline deadline = soon(1);
  while (!(cluster.plane(0).hasLeft(1) && cluster.plane(2).hasLeft(1)) && !deadline.passed())
    std::this_thread::sleep_for(1ms);
  EXPECT_TRUE(cluster.plane(2).hasLeft(1));
  EXPECT_FALSE(cluster.plane(2).hasLeft(0));
  EXPECT_FALSE(cluster.plane(0).hasLeft(2));
  const Status status = cluster.plane(2).barrier(soon(1));
  EXPECT_TRUE(contains(status.message(), "barrier: rank 1 (")) << status.message();
  EXPECT_TRUE(contains(status.message(), "left without taking part")) << status.message();
}

TEST(Goodbye, FromTheHubFailsLaterControlOps) {
  Cluster cluster(2);
  cluster.expectJoined();
  std::jthread hub([&] {
    std::this_thread::sleep_for(50ms);
    cluster.plane(0).leave(soon());
  });
  const Status status = cluster.plane(1).barrier(soon(2));
  hub.join();
  EXPECT_TRUE(contains(status.message(), "barrier: rank 0 (")) << status.message();
  EXPECT_TRUE(contains(status.message(), "the hub, has left")) << status.message();
  EXPECT_TRUE(cluster.plane(1).hasLeft(0));
}

TEST(Suspicion, DirectEvidenceReplacesIt) {
  Cluster cluster(4, localEnv(4));
  cluster.expectJoined();
  const std::string name = cluster.plane(0).roster().rankName(2);
  cluster.plane(1).suspect(3, "my connection to rank 3 broke");
  std::this_thread::sleep_for(50ms);
  cluster[2].plane.reset();
  EXPECT_EQ(sameText(cluster), name + " ended without goodbye (connection closed)");
}

TEST(Suspicion, BecomesTheFailureIfNoEvidenceComes) {
  for (size_t from : {0, 1}) {
    Cluster cluster(3, localEnv(2));
    cluster.expectJoined();
    const auto start = Deadline::Clock::now();
    cluster.plane(from).suspect(2, "connection to rank 2 broke: Broken pipe");
    EXPECT_EQ(sameText(cluster), "connection to rank 2 broke: Broken pipe");
    EXPECT_GT(Deadline::Clock::now() - start, 400ms);
    EXPECT_LT(Deadline::Clock::now() - start, 900ms);
  }
}

TEST(Suspicion, IsIgnoredForMembersThatLeft) {
  Cluster cluster(3, localEnv(1));
  cluster.expectJoined();
  cluster.plane(1).suspect(2, "rank 2 is gone");  // before rank 2's goodbye arrives at rank 1
  cluster.plane(2).leave(soon());
  cluster[2].plane.reset();
  cluster.plane(0).suspect(2, "rank 2 is gone");
  cluster.plane(1).suspect(2, "rank 2 is gone");
  std::this_thread::sleep_for(700ms);
  EXPECT_EQ(cluster[0].failures.count() + cluster[1].failures.count(), 0) << cluster[0].failures.wait(0);
  cluster.leave();
}

TEST(Suspicion, IsIgnoredAfterTheHubSaidGoodbye) {
  Cluster cluster(3, localEnv(4));
  cluster.expectJoined();
  cluster.plane(1).suspect(2, "rank 2 broke");  // before the hub's goodbye arrives at rank 1
  cluster.plane(0).leave(soon());
  cluster[0].plane.reset();
  while (!cluster.plane(1).hasLeft(2)) std::this_thread::sleep_for(1ms);
  cluster.plane(1).suspect(0, "rank 0 is gone");
  cluster.plane(1).suspect(2, "rank 2 broke");
  EXPECT_EQ(cluster[1].failures.wait(2.5), "");
  cluster.plane(1).report({Code::kInternal, "a fault of its own"});
  EXPECT_EQ(cluster[1].failures.wait(0.5), "a fault of its own");
}

TEST(ControlOps, MissingRankIsNamedWhenTheDeadlinePasses) {
  Cluster cluster(4, localEnv(5));
  cluster.expectJoined();
  std::vector<std::jthread> threads;
  for (size_t r : {0, 2})
    threads.emplace_back([&, r] {
      const auto start = Deadline::Clock::now();
      const Status status = cluster.plane(r).barrier(soon(r == 0 ? 2 : 0.5));
      EXPECT_LT(Deadline::Clock::now() - start, 900ms);
      const std::string text = status.message();
      EXPECT_TRUE(contains(text, "barrier: 2 of 4 participants missing: rank 1 (")) << text;
      EXPECT_TRUE(contains(text, ", rank 3 (")) << text;
      EXPECT_TRUE(contains(text, "waited 0.5 s")) << text;
    });
  for (std::jthread& thread : threads) thread.join();
}

TEST(ControlOps, InterruptEndsABlockedCall) {
  Cluster cluster(2, localEnv(5));
  cluster.expectJoined();
  std::jthread other([&] {
    std::this_thread::sleep_for(50ms);
    cluster.plane(1).interrupt();
  });
  const Status status = cluster.plane(1).barrier(soon(4));
  other.join();
  EXPECT_STREQ(status.message(), "aborted");
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
}

TEST(ControlOps, InvalidInputFailsTheCommunicator) {
  Cluster cluster(2);
  cluster.expectJoined();
  EXPECT_FALSE(cluster.plane(1).exchange({{1}}, soon(1)).ok());
  EXPECT_TRUE(contains(cluster[0].failures.wait(1), "sent 1 items instead of 2"));
}

}  // namespace
}  // namespace bps::test
