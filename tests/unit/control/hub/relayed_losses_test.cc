#include "src/control/hub/relayed_losses.h"

#include "tests/unit/control/cluster.h"

namespace bps::test {
namespace {

class RelayedLossesTest : public testing::Test {
 protected:
  // Ranks 1 and 2 are direct. The chains are 3 to 1 and 4 to 3 to 1.
  RelayedLossesTest() {
    losses_.setVia(1, ~0U);
    losses_.setVia(3, 1);
    losses_.setVia(4, 3);
  }
  std::string blamed(const std::vector<size_t>& lost, size_t suspected = 99) {
    for (size_t member : lost)
      losses_.add(member, Status(Code::kRemote, "rank " + std::to_string(member)), Deadline::in({}));
    return losses_.due([&](size_t member) { return member == suspected; }).message();
  }
  RelayedLosses losses_;
};

TEST_F(RelayedLossesTest, BlamesTheRelayOfALostRank) { EXPECT_EQ(blamed({4, 3, 1}), "rank 1"); }
TEST_F(RelayedLossesTest, BlamesARankWhoseRelayIsAlive) { EXPECT_EQ(blamed({3, 4}), "rank 3"); }
TEST_F(RelayedLossesTest, BlamesTheFirstOfSeveral) { EXPECT_EQ(blamed({3, 2, 1}), "rank 2"); }
TEST_F(RelayedLossesTest, BlamesASuspectedRankFirst) { EXPECT_EQ(blamed({3, 2, 1}, 1), "rank 1"); }
TEST_F(RelayedLossesTest, DoesNotBlameASuspectedRankBehindALostRelay) { EXPECT_EQ(blamed({3, 2, 1}, 3), "rank 2"); }

TEST_F(RelayedLossesTest, BlamesSomebodyIfRelaysFormACircle) {
  losses_.setVia(1, 4);
  EXPECT_EQ(blamed({4, 3, 1}), "rank 4");
}

TEST_F(RelayedLossesTest, WaitsForTheDecision) {
  EXPECT_TRUE(losses_.relayed());
  EXPECT_FALSE(RelayedLosses().relayed());
  losses_.add(3, Status(Code::kRemote, "rank 3"), Deadline::in(1h));
  losses_.add(1, Status(Code::kRemote, "rank 1"), Deadline::in({}));
  EXPECT_TRUE(losses_.has(3));
  EXPECT_FALSE(losses_.has(4));
  EXPECT_TRUE(losses_.due([](size_t) { return false; }).ok()) << "the first loss sets the time";
}

}  // namespace
}  // namespace bps::test
