// Tests the weights of every call while servers come and go.
#include "src/comm/servers/server_weights.h"

#include <gtest/gtest.h>

namespace bps::test {
namespace {

// Two machines and three places for servers, of which only the first is taken at the start.
class ServerWeightsTest : public testing::Test {
 protected:
  static Roster makeRoster() {
    Roster roster;
    roster.jobId = 1;
    roster.ranks = {{"a", "a", 1, 0, 0}, {"b", "b", 2, 1, 0}, {"c", "c", 3, 2, 0}};
    roster.machines = {{{0}, 1}, {{1}, 1}, {{2}, 1}};
    roster.servers = {{"s0", 1, true}, {"", 0, false}, {"", 0, false}};
    return roster;
  }
  // Names the servers that have a weight, for example "02".
  static std::string sharesOf(const std::vector<uint64_t>& weights) {
    EXPECT_EQ(weights.size(), 6U);
    std::string names;
    for (size_t server = 0; server < 3; ++server)
      if (weights[3 + server] > 0) names += std::to_string(server);
    return names;
  }
  std::string sharesAt(uint64_t call) const { return sharesOf(weights_.at(call).value()); }
  // Begins this call, and names the servers that have a share of it.
  std::string begin(uint64_t call) {
    EXPECT_TRUE(weights_.beforeCut(call, cutter_).ok());
    weights_.beforeBegin(call);
    EXPECT_EQ(cutter_.weights(), weights_.at(call).value());
    return sharesOf(cutter_.weights());
  }

  const Roster roster_ = makeRoster();
  ServerWeights weights_{roster_};
  Cutter cutter_{weights_.at(0).value(), CutLimits()};
};

TEST_F(ServerWeightsTest, WithoutChangesTheServersOfTheRosterHaveTheShares) {
  EXPECT_EQ(begin(0), "0");
  EXPECT_EQ(sharesAt(UINT64_MAX), "0");
  EXPECT_EQ(weights_.present(), 1U);
}

TEST_F(ServerWeightsTest, AChangeTakesEffectWithItsCallAndNotBefore) {
  weights_.add(3, 1, true, 1);
  EXPECT_EQ(weights_.present(), 2U);
  for (uint64_t call = 0; call < 3; ++call) EXPECT_EQ(begin(call), "0");
  EXPECT_EQ(begin(3), "01");
  EXPECT_EQ(begin(4), "01");
}

TEST_F(ServerWeightsTest, TheRateOfAJoiningServerSetsItsShare) {
  weights_.add(0, 1, true, 0.25);
  weights_.add(0, 2, true);
  const std::vector<uint64_t> weights = weights_.at(0).value();
  EXPECT_LT(weights[4], weights[3]);
  EXPECT_EQ(weights[5], weights[3]) << "a server without a rate gets the fastest rate";
}

TEST_F(ServerWeightsTest, WithoutServersTheMachinesHaveEqualShares) {
  weights_.add(1, 0, false);
  EXPECT_EQ(weights_.present(), 0U);
  begin(0);
  EXPECT_EQ(begin(1), "");
  EXPECT_EQ(cutter_.weights(), (std::vector<uint64_t>{1, 1, 1, 0, 0, 0}));
}

TEST_F(ServerWeightsTest, OfTwoChangesOfOneServerTheOneAddedLastWins) {
  weights_.add(5, 1, true, 1);
  weights_.add(4, 1, false);  // lost before the join takes effect
  for (uint64_t call = 0; call < 8; ++call) EXPECT_EQ(begin(call), "0") << call;
}

TEST_F(ServerWeightsTest, ChangesOfSeveralServersMayHaveAnyOrderOfTheirCalls) {
  weights_.add(6, 1, true, 1);
  weights_.add(3, 0, false);
  weights_.add(9, 2, true, 1);
  const char* const expected[] = {"0", "0", "0", "", "", "", "1", "1", "1", "12", "12"};
  for (uint64_t call = 0; call < std::size(expected); ++call) EXPECT_EQ(begin(call), expected[call]) << call;
}

TEST_F(ServerWeightsTest, AServerMayLeaveAndComeBack) {
  weights_.add(1, 0, false);
  begin(0);
  EXPECT_EQ(begin(1), "");
  begin(2);
  weights_.add(4, 0, true, 1);
  EXPECT_EQ(begin(3), "");
  EXPECT_EQ(begin(4), "0");
}

TEST_F(ServerWeightsTest, CallsThatHaveBegunKeepTheirWeights) {
  begin(0);
  weights_.add(0, 0, false);
  EXPECT_EQ(sharesOf(cutter_.weights()), "0");
  weights_.add(2, 1, true, 1);
  EXPECT_TRUE(weights_.beforeCut(1, cutter_).ok());
  EXPECT_EQ(begin(2), "1");
}

}  // namespace
}  // namespace bps::test
