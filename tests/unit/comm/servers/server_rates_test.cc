#include "src/comm/servers/server_rates.h"

#include <gtest/gtest.h>

namespace bps::test {
namespace {

using Duration = ServerRates::Duration;

// Three machines, of which this rank's one has no remote lane, and two servers. Time runs in steps of one second.
class ServerRatesTest : public testing::Test {
 protected:
  // One second in which the lanes are busy for these times.
  std::optional<ServerRates::NewRate> second(const std::vector<double>& busy) {
    for (size_t lane = 0; lane < busy.size(); ++lane) busy_[lane] += Duration(busy[lane]);
    now_ += std::chrono::seconds(1);
    return rates_.check(busy_, factors_, now_);
  }
  // Returns the first new rate within so many seconds and gives it to the server.
  std::optional<ServerRates::NewRate> within(int seconds, const std::vector<double>& busy) {
    for (int i = 0; i < seconds; ++i)
      if (const auto found = second(busy)) {
        factors_[found->server] = found->factor;
        return found;
      }
    return {};
  }

  std::vector<Duration> busy_ = std::vector<Duration>(5);
  std::vector<double> factors_{1, 1};
  ServerRates::TimePoint now_ = ServerRates::TimePoint() + std::chrono::hours(1);
  ServerRates rates_{3};
};

TEST_F(ServerRatesTest, BalancedLanesKeepTheirRates) { EXPECT_FALSE(within(60, {0, 0.8, 0.9, 0.95, 0.7})); }

TEST_F(ServerRatesTest, SlowServerLosesShareAfterTwoMeasurements) {
  second({0, 0.9, 0.9, 0.9, 0.9});
  EXPECT_FALSE(second({0, 0.1, 0.1, 0.1, 1}));
  const auto found = second({0, 0.1, 0.1, 0.1, 1});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->server, 1U);
  EXPECT_NEAR(found->factor, 0.09, 1e-9);
}

TEST_F(ServerRatesTest, OneSlowMeasurementIsNoise) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(second({0, 0.1, 0.1, 0.1, 1}));
    EXPECT_FALSE(second({0, 0.9, 0.9, 0.9, 0.9}));
  }
}

TEST_F(ServerRatesTest, LanesThatAreHardlyBusySayNothing) { EXPECT_FALSE(within(60, {0, 0.01, 0.01, 0.01, 0.2})); }

TEST_F(ServerRatesTest, LanesWithoutShareDoNotCount) {
  const auto found = within(3, {0, 0, 0, 0.2, 1});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->server, 1U);
}

TEST_F(ServerRatesTest, SlowWorkerCostsNoServerItsShare) { EXPECT_FALSE(within(60, {0, 1, 0.2, 0.2, 0.2})); }

TEST_F(ServerRatesTest, ChangesAreTenSecondsApart) {
  ASSERT_TRUE(within(3, {0, 0.1, 0.1, 0.1, 1}));
  EXPECT_FALSE(within(9, {0, 0.1, 0.1, 1, 0.1}));
  EXPECT_TRUE(within(1, {0, 0.1, 0.1, 1, 0.1}));
}

TEST_F(ServerRatesTest, RecoveredServerRegainsItsRateAndNoMore) {
  factors_[1] = 0.1;
  const auto first = within(3, {0, 0.9, 0.9, 0.9, 0.2});
  ASSERT_TRUE(first);
  EXPECT_NEAR(first->factor, 0.405, 1e-9);
  const auto second = within(11, {0, 0.9, 0.9, 0.9, 0.2});
  ASSERT_TRUE(second);
  EXPECT_EQ(second->factor, 1);
  EXPECT_FALSE(within(60, {0, 0.9, 0.9, 0.9, 0.2}));
}

TEST_F(ServerRatesTest, RateDoesNotFallBelowTheMinimum) {
  factors_[0] = ServerRates::kMinRate;
  EXPECT_FALSE(within(60, {0, 0.1, 0.1, 1, 0.1}));
}

// A server whose true rate is a tenth: the shares settle after one change.
TEST_F(ServerRatesTest, SharesSettle) {
  int changes = 0;
  for (int i = 0; i < 300; ++i) {
    const double slow = std::min(1.0, factors_[1] / 0.1), others = slow < 1 ? 1 : 0.1 / factors_[1];
    if (within(1, {0, others, others, others, slow})) ++changes;
  }
  EXPECT_EQ(changes, 1);
  EXPECT_NEAR(factors_[1], 0.09, 0.001);
}

TEST_F(ServerRatesTest, NewLaneStartsFromZero) {
  ASSERT_FALSE(within(5, {0, 0.9, 0.9, 0.9, 0.9}));
  busy_[4] = {};
  EXPECT_FALSE(within(5, {0, 0.9, 0.9, 0.9, 0.9}));
}

}  // namespace
}  // namespace bps::test
