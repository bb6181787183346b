#include "src/comm/servers/server_rates.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace bps::test {
namespace {

using Duration = ServerRates::Duration;

// Three machines, of which this rank's one has no remote lane, and two servers. Time runs in measurements of one
// second.
class ServerRatesTest : public testing::Test {
 protected:
  static constexpr double kBytes = 1e7;  // of a lane in one second, while all servers carry their shares

  // One second of work that takes `slower` times as long as usual, with lanes that are busy for these times. Gives a
  // new rate to its server.
  std::optional<ServerRates::NewRate> second(const std::vector<double>& busy, double slower = 1) {
    const double longest = *std::max_element(busy.begin(), busy.end());
    for (size_t lane = 0; lane < busy.size(); ++lane) {
      lanes_[lane].busy += Duration(busy[lane] / longest);
      if (busy[lane] > 0) lanes_[lane].bytes += static_cast<uint64_t>(kBytes / slower);
    }
    now_ += std::chrono::seconds(1);
    const auto found = rates_.check(lanes_, factors_, now_);
    if (found) {
      factors_[found->server] = found->factor;
      rates_.noteNewShares();
    }
    return found;
  }
  std::optional<ServerRates::NewRate> within(int seconds, const std::vector<double>& busy, double slower = 1) {
    for (int i = 0; i < seconds; ++i)
      if (const auto found = second(busy, slower)) return found;
    return {};
  }
  // Server 1 achieves this fraction of its rate. Returns the number of changes in this time.
  int runWith(double rate, int seconds) {
    int changes = 0;
    for (int i = 0; i < seconds; ++i) {
      const double slower = std::max(1.0, factors_[1] / rate);
      const double others = std::max(0.45, 1 / slower);  // a busy time contains waits for other ranks
      if (second({0, others, others, others, 1}, slower)) ++changes;
    }
    return changes;
  }

  std::vector<Lane::Work> lanes_ = std::vector<Lane::Work>(5);
  std::vector<double> factors_{1, 1};
  ServerRates::TimePoint now_ = ServerRates::TimePoint() + std::chrono::hours(1);
  ServerRates rates_{3, 2};
};

TEST_F(ServerRatesTest, LanesThatHardlyWorkSayNothing) {
  for (int i = 0; i < 20; ++i) {
    now_ += std::chrono::seconds(1);
    lanes_[3].busy += Duration(.01);
    lanes_[4].busy += Duration(.04);
    lanes_[4].bytes += 1000;
    EXPECT_FALSE(rates_.check(lanes_, factors_, now_));
  }
}

TEST_F(ServerRatesTest, NothingChangesUntilANewRateHasAnEffect) {
  int changes = 0;
  for (int i = 0; i < 50; ++i) {
    now_ += std::chrono::seconds(1);
    lanes_[3].busy += Duration(.5);
    lanes_[4].busy += Duration(1);
    for (const size_t lane : {3U, 4U}) lanes_[lane].bytes += 1000;
    if (rates_.check(lanes_, factors_, now_)) ++changes;
  }
  EXPECT_EQ(changes, 1);
}

TEST_F(ServerRatesTest, BalancedLanesKeepTheirRates) { EXPECT_FALSE(within(60, {0, 0.8, 0.9, 0.95, 0.7})); }

TEST_F(ServerRatesTest, ASlowServerGetsTheRateThatItAchieves) {
  second({0, 0.9, 0.9, 0.9, 0.9});
  EXPECT_FALSE(second({0, 0.5, 0.5, 0.5, 1}, 10));
  const auto found = second({0, 0.5, 0.5, 0.5, 1}, 10);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->server, 1U);
  EXPECT_NEAR(found->factor, 0.095, 1e-6);
}

TEST_F(ServerRatesTest, AServerThatIsSlowFromTheStartLosesShareByItsLane) {
  const auto found = within(2, {0, 0.5, 0.5, 0.5, 1}, 10);
  ASSERT_TRUE(found);
  EXPECT_NEAR(found->factor, 0.475, 1e-6);
}

TEST_F(ServerRatesTest, OneSlowMeasurementIsNoise) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(second({0, 0.1, 0.1, 0.1, 1}, 3));
    EXPECT_FALSE(second({0, 0.9, 0.9, 0.9, 0.9}));
  }
}

TEST_F(ServerRatesTest, SlowCallsAloneAreNoReason) { EXPECT_FALSE(within(60, {0, 0.9, 0.9, 0.9, 0.9}, 5)); }

TEST_F(ServerRatesTest, LanesWithoutShareDoNotCount) {
  const auto found = within(3, {0, 0, 0, 0.2, 1});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->server, 1U);
}

TEST_F(ServerRatesTest, ASlowWorkerCostsNoServerItsShare) { EXPECT_FALSE(within(60, {0, 1, 0.2, 0.2, 0.2}, 3)); }

TEST_F(ServerRatesTest, ChangesAreTenSecondsApart) {
  ASSERT_TRUE(within(3, {0, 0.1, 0.1, 0.1, 1}));
  EXPECT_FALSE(within(9, {0, 0.1, 0.1, 1, 0.1}));
  const auto found = within(1, {0, 0.1, 0.1, 1, 0.1});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->server, 0U);
}

TEST_F(ServerRatesTest, ARecoveredServerRegainsItsRate) {
  runWith(1, 5);
  EXPECT_EQ(runWith(.1, 20), 1);
  EXPECT_NEAR(factors_[1], 0.095, 1e-6);
  EXPECT_EQ(runWith(1, 80), 4);
  EXPECT_EQ(factors_[1], 1);
  EXPECT_EQ(runWith(1, 1000), 0);
}

TEST_F(ServerRatesTest, AServerThatStaysSlowChangesTheSharesEverMoreRarely) {
  runWith(1, 5);
  EXPECT_LE(runWith(.1, 600), 9);
  EXPECT_NEAR(factors_[1], 0.095, 1e-6);
  EXPECT_LE(runWith(.1, 3600), 8);
}

TEST_F(ServerRatesTest, TheRateDoesNotFallBelowTheMinimum) {
  for (int i = 0; i < 100; ++i) second({0, 0.1, 0.1, 1, 0.1}, 10);
  EXPECT_GE(factors_[0], ServerRates::kMinRate);
}

TEST_F(ServerRatesTest, ANewLaneStartsFromZero) {
  ASSERT_FALSE(within(5, {0, 0.9, 0.9, 0.9, 0.9}));
  lanes_[4] = {};
  EXPECT_FALSE(within(5, {0, 0.9, 0.9, 0.9, 0.9}));
}

}  // namespace
}  // namespace bps::test
