// Tests which failures of servers the control plane survives, and the recovery operation.
#include "tests/unit/control/fake_server.h"

namespace bps::test {
namespace {

class ServerLossTest : public testing::Test {
 protected:
  ServerLossTest() {
    cluster_.expectJoined();
    exchangeHandles(cluster_);
  }
  // Expects that every rank has learned of the same losses, and of no failure. Returns the reason of the last loss.
  std::string lost(const std::vector<uint32_t>& servers) {
    std::string why;
    for (size_t r = 0; r < cluster_.size(); ++r) {
      const std::vector<ServerEvent> losses = cluster_[r].failures.waitForLosses(servers.size());
      EXPECT_EQ(losses.size(), servers.size());
      for (size_t i = 0; i < std::min(losses.size(), servers.size()); ++i) EXPECT_EQ(losses[i].server, servers[i]);
      if (r > 0 && !losses.empty()) {
        EXPECT_EQ(losses.back().text, why);
      }
      why = losses.empty() ? "" : losses.back().text;
      EXPECT_EQ(cluster_[r].failures.count(), 0);
    }
    return why;
  }
  void expectRecovers() {
    cluster_.each([](uint32_t r, ControlPlane& plane) {
      auto items = plane.gatherForRecovery(Blob{static_cast<uint8_t>(r)}, soon());
      ASSERT_TRUE(items.ok()) << items.error().message();
      EXPECT_EQ(std::move(items).value(), (std::vector<Blob>{{0}, {1}, {2}}));
    });
  }
  size_t memberOf(size_t server) const { return cluster_.size() + server; }

  std::unique_ptr<TestServer> servers_[2] = {std::make_unique<TestServer>(), std::make_unique<TestServer>()};
  Cluster cluster_{3, withServers({servers_[0].get(), servers_[1].get()}, 4)};
};

TEST_F(ServerLossTest, ServersThatEndAreLostOneAfterTheOther) {
  servers_[1].reset();
  EXPECT_NE(lost({1}).find("server"), std::string::npos);
  expectRecovers();
  servers_[0].reset();
  lost({1, 0});
  expectRecovers();
  cluster_.leave();
}

TEST_F(ServerLossTest, ASuspicionOfAServerBecomesItsLoss) {
  cluster_.plane(2).suspect(memberOf(0), "rank 2 cannot reach the server");
  cluster_.plane(1).suspect(memberOf(0), "rank 1 cannot reach the server");
  EXPECT_NE(lost({0}).find("cannot reach the server"), std::string::npos);
  cluster_.plane(1).suspect(memberOf(0), "a late suspicion does not matter");
  expectRecovers();
  EXPECT_TRUE(servers_[0]->runner.waitEmpty()) << "the server ends its job";
  cluster_.leave();
}

TEST_F(ServerLossTest, IfAServerSuspectsARankTheServerIsLost) {
  servers_[1]->runner.jobs()[0].events->lost(cluster_.plane(0).roster().jobId, 2, "connection reset");
  EXPECT_NE(lost({1}).find("connection reset"), std::string::npos);
  expectRecovers();
  cluster_.leave();
}

// Nothing has moved before the recovery, so the time before it tells nothing about the other servers.
TEST_F(ServerLossTest, AWaitBeginsAnewAfterARecovery) {
  for (size_t r = 0; r < cluster_.size(); ++r) cluster_.plane(r).reportCallsStarted(8);
  cluster_.plane(0).reportWait({7, static_cast<uint32_t>(memberOf(1))});
  servers_[0].reset();
  lost({0});
  expectRecovers();
  const auto waitTime = 2 * cluster_.plane(0).roster().waitReportTime();
  EXPECT_EQ(cluster_[0].failures.waitForLosses(2, std::chrono::duration<double>(waitTime).count()).size(), 1U);
  EXPECT_NE(lost({0, 1}).find("cannot reach each other"), std::string::npos);
  expectRecovers();
  cluster_.leave();
}

TEST_F(ServerLossTest, WaitsDuringASuspicionBlameNobody) {
  for (size_t r = 0; r < cluster_.size(); ++r) cluster_.plane(r).reportCallsStarted(8);
  cluster_.plane(0).reportWait({7, static_cast<uint32_t>(memberOf(1))});
  std::this_thread::sleep_for(cluster_.plane(0).roster().waitReportTime() * 3 / 4);
  cluster_.plane(2).suspect(memberOf(0), "rank 2 cannot reach the server");
  EXPECT_NE(lost({0}).find("rank 2 cannot reach the server"), std::string::npos);
  cluster_.plane(0).reportWait({});
  expectRecovers();
  cluster_.leave();
}

TEST_F(ServerLossTest, ARankThatHasLeftTakesPartWithAnEmptyItem) {
  cluster_.plane(2).leave(soon());
  servers_[0].reset();
  for (size_t r = 0; r < 2; ++r) EXPECT_EQ(cluster_[r].failures.waitForLosses(1).size(), 1U);
  std::jthread other([&] { EXPECT_TRUE(cluster_.plane(1).gatherForRecovery({7}, soon()).ok()); });
  auto items = cluster_.plane(0).gatherForRecovery({5}, soon());
  other.join();
  ASSERT_TRUE(items.ok()) << items.error().message();
  EXPECT_EQ(std::move(items).value(), (std::vector<Blob>{{5}, {7}, {}}));
}

TEST_F(ServerLossTest, ARankThatLeavesDuringTheRecoveryEndsIt) {
  servers_[0].reset();
  lost({0});
  std::jthread other([&] { EXPECT_TRUE(cluster_.plane(1).gatherForRecovery({7}, soon()).ok()); });
  std::jthread leaver([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    cluster_.plane(2).leave(soon());
  });
  auto items = cluster_.plane(0).gatherForRecovery({5}, soon());
  other.join();
  leaver.join();
  ASSERT_TRUE(items.ok()) << items.error().message();
  EXPECT_TRUE(std::move(items).value()[2].empty());
}

TEST_F(ServerLossTest, ARecoveryAndAGatherDoNotDisturbEachOther) {
  servers_[0].reset();
  lost({0});
  std::jthread gathers([&] {
    cluster_.each([](uint32_t r, ControlPlane& plane) {
      for (uint8_t i = 0; i < 20; ++i) {
        auto items = plane.gather(Blob{static_cast<uint8_t>(10 * r + i)}, soon());
        ASSERT_TRUE(items.ok()) << items.error().message();
        EXPECT_EQ(std::move(items).value()[1], Blob{static_cast<uint8_t>(10 + i)});
      }
    });
  });
  expectRecovers();
  gathers.join();
  cluster_.leave();
}

TEST(ServerLoss, BeforeTheLanesAreConnectedItIsAFailure) {
  auto server = std::make_unique<TestServer>();
  Cluster cluster(2, withServers({server.get()}, 4));
  cluster.expectJoined();
  const std::string name = cluster.plane(0).roster().memberName(2);
  server.reset();
  EXPECT_NE(cluster[1].failures.wait().find(name), std::string::npos);
  EXPECT_TRUE(cluster[1].failures.waitForLosses(0).empty());
}

}  // namespace
}  // namespace bps::test
