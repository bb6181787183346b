// Tests how the ranks that remain after a shrink meet, with the control planes of the parent and of the new
// communicator.
#include "src/comm/startup/shrink.h"

#include "tests/unit/control/raw_peer.h"

namespace bps::test {
namespace {

// The parent has four ranks. Ranks 0 and 1 share a machine.
class ShrinkTest : public testing::Test {
 protected:
  void SetUp() override { parent_.expectJoined(); }
  Membership membershipOf(uint32_t rank, const std::vector<uint32_t>& excluded) {
    return shrunkenMembership(parent_.plane(rank), id_.key, excluded);
  }
  Result<std::unique_ptr<ControlPlane>> join(uint32_t rank, const std::vector<uint32_t>& excluded, double timeout) {
    const Membership own = membershipOf(rank, excluded);
    const JoinArgs args{own.id, own.rank, own.nRanks, std::to_string(rank), own.shrink};
    return joinPlane(localEnv(timeout), args, soon(timeout), failures_[rank].sink());
  }
  // Joins at the same time as each of `ranks`, and returns the text of the failure of each, or "".
  std::vector<std::string> joinAll(const std::vector<uint32_t>& ranks, const std::vector<uint32_t>& excluded,
                                   double timeout = 3) {
    std::vector<std::string> texts(ranks.size());
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < ranks.size(); ++i)
      threads.emplace_back([&, i] {
        auto plane = join(ranks[i], excluded, timeout);
        if (!plane.ok()) texts[i] = plane.error().message();
        else planes_[ranks[i]] = std::move(plane).value();
      });
    for (std::jthread& thread : threads) thread.join();
    return texts;
  }

  const UniqueId id_ = newId(localEnv());
  Cluster parent_{id_, 4, localEnv(), [](uint32_t rank) { return std::to_string(rank / 2); }, {}};
  FailureRecorder failures_[4];  // must outlive planes_
  std::unique_ptr<ControlPlane> planes_[4];
};

TEST_F(ShrinkTest, MembershipKeepsTheOrderOfTheRanks) {
  const Membership first = membershipOf(1, {0, 3}), second = membershipOf(2, {0, 3});
  EXPECT_EQ(first.rank, 0U);
  EXPECT_EQ(second.rank, 1U);
  EXPECT_EQ(second.nRanks, 2U);
  EXPECT_FALSE(second.onOneMachine);
  EXPECT_TRUE(membershipOf(1, {2, 3}).onOneMachine);
  EXPECT_EQ(second.id.kind, UniqueId::Kind::kHub);
  EXPECT_EQ(second.id.address.text(), parent_.plane(3).roster().ranks[1].standby.text());
  EXPECT_EQ(first.id.key, second.id.key);
  EXPECT_NE(first.id.key, id_.key);
  EXPECT_EQ(second.shrink.name, "0, 3");
  EXPECT_EQ(second.shrink.rankNames[1], parent_.plane(0).roster().rankName(2));
}

TEST_F(ShrinkTest, LongListsDifferByTheirChecksums) {
  std::vector<uint32_t> many, others;
  for (uint32_t i = 2; i < 2000; i += 2) many.push_back(i);
  others = many;
  others.back() += 2;
  const std::string name = membershipOf(0, many).shrink.name;
  EXPECT_LT(name.size(), 1100U);
  EXPECT_EQ(name, membershipOf(1, many).shrink.name);
  EXPECT_NE(name, membershipOf(0, others).shrink.name);
}

TEST_F(ShrinkTest, RemainingRanksMeetAfterTheDeathOfTheHub) {
  parent_[0].plane.reset();
  EXPECT_EQ(joinAll({1, 2, 3}, {0}), std::vector<std::string>(3));
  for (uint32_t rank : {1U, 2U, 3U}) {
    ASSERT_NE(planes_[rank], nullptr);
    EXPECT_EQ(planes_[rank]->roster().ranks.size(), 3U);
    EXPECT_EQ(planes_[rank]->rank(), rank - 1);
  }
  EXPECT_NE(planes_[1]->roster().jobId, parent_.plane(1).roster().jobId);
}

TEST_F(ShrinkTest, MissingRankIsNamedAsInTheParentAndTheRanksMayTryAgain) {
  const std::string name = parent_.plane(0).roster().rankName(3);
  const std::vector<std::string> texts = joinAll({1, 2}, {0}, 0.6);
  for (const std::string& text : texts) EXPECT_TRUE(contains(text, "1 of 3 ranks missing: " + name)) << text;
  EXPECT_EQ(joinAll({1, 2, 3}, {0}), std::vector<std::string>(3));
}

TEST_F(ShrinkTest, MissingHubIsNamedAsInTheParent) {
  const std::string name = parent_.plane(0).roster().rankName(1);
  for (const std::string& text : joinAll({2, 3}, {0}, 0.6))
    EXPECT_TRUE(contains(text, name + " did not come in time")) << text;
}

TEST_F(ShrinkTest, RankWithAnotherListIsRefusedAndTheOthersWaitForIt) {
  std::jthread hub([&] { EXPECT_EQ(joinAll({1}, {0, 3}), std::vector<std::string>(1)); });
  const auto refused = join(3, {0}, 3);
  ASSERT_FALSE(refused.ok());
  EXPECT_TRUE(contains(refused.error().message(), "ranks shrink differently")) << refused.error().message();
  EXPECT_TRUE(contains(refused.error().message(), "excludes 0, 3, ")) << refused.error().message();
  EXPECT_EQ(joinAll({2}, {0, 3}), std::vector<std::string>(1));
  hub.join();
}

TEST_F(ShrinkTest, StrangersAreRefused) {
  const Address hub = parent_.plane(0).roster().ranks[1].standby;
  ConnectingHandshake stranger(std::make_unique<ControlSocket>(connectTo(hub)), {id_.key, true, 2000}, Purpose::kJoin,
                               0);
  std::jthread others([&] { EXPECT_EQ(joinAll({1, 2, 3}, {0}), std::vector<std::string>(3)); });
  const Status status = finish(stranger);
  EXPECT_TRUE(contains(status.message(), "authentication failed")) << status.message();
  others.join();
}

}  // namespace
}  // namespace bps::test
