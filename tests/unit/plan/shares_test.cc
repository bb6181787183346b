#include "src/plan/shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

namespace bps {
namespace {

using Reals = std::vector<double>;

Shares solve(const Reals& workers, const Reals& servers) {
  auto solved = solveShares({workers, servers});
  EXPECT_TRUE(solved.ok()) << solved.error().message();
  return solved.ok() ? std::move(solved).value() : Shares{};
}

// Returns the seconds per byte that the slowest NIC takes with these shares.
double timeOf(const Rates& rates, const Reals& workers, const Reals& servers) {
  const size_t n = rates.workers.size();
  double time = 0;
  for (size_t i = 0; i < n; ++i) time = std::max(time, workerTraffic(n, workers[i]) / rates.workers[i]);
  for (size_t j = 0; j < servers.size(); ++j)
    if (servers[j] > 0) time = std::max(time, serverTraffic(n, servers[j]) / rates.servers[j]);
  return time;
}

double total(const Shares& shares) {
  return std::accumulate(shares.workers.begin(), shares.workers.end(), 0.0) +
         std::accumulate(shares.servers.begin(), shares.servers.end(), 0.0);
}

Rates randomRates(std::mt19937& random) {
  std::uniform_real_distribution<double> rate(0.1, 4);
  Rates rates{Reals(1 + random() % 8), Reals(random() % 9)};
  for (double& r : rates.workers) r = rate(random) * 1e9;
  for (double& r : rates.servers) r = random() % 5 == 0 ? 0 : rate(random) * 1e9;
  return rates;
}

TEST(SharesTest, EqualRatesGiveTheClosedForm) {
  for (size_t n = 2; n <= 16; ++n) {
    for (size_t k = 0; k <= n; ++k) {
      const double b = 3e9;
      const Shares shares = solve(Reals(n, b), Reals(k, b));
      const double base = static_cast<double>(n * n + k * n - 2 * k);
      for (double s : shares.workers) EXPECT_NEAR(s, static_cast<double>(n - k) / base, 1e-14) << n << " " << k;
      for (double c : shares.servers) EXPECT_NEAR(c, 2.0 * static_cast<double>(n - 1) / base, 1e-14) << n << " " << k;
      EXPECT_NEAR(shares.secondsPerByte * b, 2.0 * static_cast<double>(n * (n - 1)) / base, 1e-12) << n << " " << k;
      // The ratios of the integer weights must be exactly those of the shares.
      for (size_t o = 1; o < n + k; ++o) {
        const uint64_t s = n - k, c = 2 * (n - 1);
        EXPECT_EQ(shares.weights[o] * s, shares.weights[0] * (o < n ? s : c)) << n << " " << k;
      }
      EXPECT_LE(std::accumulate(shares.weights.begin(), shares.weights.end(), uint64_t{0}), n * n + k * n);
    }
  }
}

TEST(SharesTest, SpeedupsMatchThePublishedTable) {
  const auto speedUp = [](size_t n, size_t k) {
    return solve(Reals(n, 1), {}).secondsPerByte / solve(Reals(n, 1), Reals(k, 1)).secondsPerByte;
  };
  EXPECT_NEAR(speedUp(4, 1), 1.125, 1e-12);
  EXPECT_NEAR(speedUp(4, 4), 1.5, 1e-12);
  EXPECT_NEAR(speedUp(8, 4), 1.375, 1e-12);
  EXPECT_NEAR(speedUp(16, 16), 1.875, 1e-12);
  EXPECT_NEAR(speedUp(2, 2), 1, 1e-12);
}

TEST(SharesTest, MoreServersThanWorkersShareTheLoad) {
  for (size_t n = 2; n <= 6; ++n) {
    const Shares shares = solve(Reals(n, 1), Reals(2 * n, 1));
    for (double s : shares.workers) EXPECT_EQ(s, 0);
    for (double c : shares.servers) EXPECT_NEAR(c, 0.5 / static_cast<double>(n), 1e-14);
    EXPECT_NEAR(shares.secondsPerByte, 1, 1e-14);
  }
  const Shares unequal = solve(Reals(3, 1), {4, 2, 2});
  EXPECT_NEAR(unequal.servers[0], 0.5, 1e-14);
}

TEST(SharesTest, OneWorkerNeedsNoNetwork) {
  const Shares shares = solve({5e9}, {1e9, 1e9});
  EXPECT_EQ(shares.workers[0], 1);
  EXPECT_EQ(shares.secondsPerByte, 0);
  EXPECT_EQ(shares.weights, (std::vector<uint64_t>{1, 0, 0}));
  EXPECT_EQ(workerTraffic(1, 1), 0);
}

TEST(SharesTest, SharesAreFeasibleInTheStatedTime) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    const Rates rates = randomRates(random);
    const Shares shares = solve(rates.workers, rates.servers);
    EXPECT_NEAR(total(shares), 1, 1e-12);
    for (double s : shares.workers) EXPECT_GE(s, 0);
    for (size_t j = 0; j < rates.servers.size(); ++j) {
      EXPECT_GE(shares.servers[j], 0);
      if (rates.servers[j] == 0) {
        EXPECT_EQ(shares.servers[j], 0);
      }
    }
    const double time = timeOf(rates, shares.workers, shares.servers);
    if (rates.workers.size() > 1) {
      EXPECT_NEAR(time / shares.secondsPerByte, 1, 1e-8);
    }
  }
}

TEST(SharesTest, NoPerturbationIsFaster) {
  std::mt19937 random(2);
  std::uniform_real_distribution<double> part(0, 1);
  for (int round = 0; round < 3000; ++round) {
    const Rates rates = randomRates(random);
    const Shares best = solve(rates.workers, rates.servers);
    Reals all = best.workers;
    all.insert(all.end(), best.servers.begin(), best.servers.end());
    const size_t from = random() % all.size(), to = random() % all.size();
    if (to >= rates.workers.size() && rates.servers[to - rates.workers.size()] == 0) continue;
    const double moved = all[from] * part(random) * (round % 2 == 0 ? 1 : 1e-3);
    all[from] -= moved;
    all[to] += moved;
    const auto middle = all.begin() + static_cast<std::ptrdiff_t>(rates.workers.size());
    EXPECT_GE(timeOf(rates, Reals(all.begin(), middle), Reals(middle, all.end())), best.secondsPerByte * (1 - 1e-8));
  }
}

TEST(SharesTest, AFasterMachineNeverIncreasesTheTime) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    Rates rates = randomRates(random);
    const double before = solve(rates.workers, rates.servers).secondsPerByte;
    Reals& side = rates.servers.empty() || round % 2 == 0 ? rates.workers : rates.servers;
    side[random() % side.size()] *= 1.5;
    EXPECT_LE(solve(rates.workers, rates.servers).secondsPerByte, before * (1 + 1e-14));
  }
}

TEST(SharesTest, AServerOfRateZeroGetsNoShare) {
  const Shares with = solve({1, 2, 3}, {2, 0, 1});
  const Shares without = solve({1, 2, 3}, {2, 1});
  EXPECT_EQ(with.workers, without.workers);
  EXPECT_EQ(with.servers, (Reals{without.servers[0], 0, without.servers[1]}));
  EXPECT_EQ(with.secondsPerByte, without.secondsPerByte);
  EXPECT_EQ(with.weights[4], 0U);
  EXPECT_EQ(solve({7, 7, 7}, {0, 0}).workers, solve({7, 7, 7}, {}).workers);
}

TEST(SharesTest, WeightsFollowTheShares) {
  std::mt19937 random(4);
  for (int round = 0; round < 1000; ++round) {
    const Rates rates = randomRates(random);
    const Shares shares = solve(rates.workers, rates.servers);
    const auto sum = std::accumulate(shares.weights.begin(), shares.weights.end(), uint64_t{0});
    ASSERT_GT(sum, 0U);
    ASSERT_LE(sum, uint64_t{1} << 40);
    for (size_t o = 0; o < shares.weights.size(); ++o) {
      const double share = o < rates.workers.size() ? shares.workers[o] : shares.servers[o - rates.workers.size()];
      EXPECT_NEAR(static_cast<double>(shares.weights[o]) / static_cast<double>(sum), share, 1e-10);
    }
  }
}

TEST(SharesTest, ThousandsOfMachinesDoNotOverflow) {
  Rates rates{Reals(20000, 5e10), Reals(10000, 5e10)};
  rates.workers[7] = 4.9e10;
  const Shares shares = solve(rates.workers, rates.servers);
  EXPECT_NEAR(total(shares), 1, 1e-9);
  EXPECT_NEAR(timeOf(rates, shares.workers, shares.servers) / shares.secondsPerByte, 1, 1e-8);
}

TEST(SharesTest, OnlyProportionsOfRatesMatter) {
  EXPECT_EQ(solve({1, 3, 2}, {1, 2}).weights, solve({1e9, 3e9, 2e9}, {1e9, 2e9}).weights);
  EXPECT_NEAR(solve({1, 3, 2}, {1}).secondsPerByte, 1e9 * solve({1e9, 3e9, 2e9}, {1e9}).secondsPerByte, 1e-12);
}

TEST(SharesTest, InvalidRatesAreRefused) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const Rates& bad : {Rates{{}, {1}}, Rates{{0}, {}}, Rates{{1, -1}, {}}, Rates{{1, std::nan("")}, {}},
                           Rates{{1, inf}, {}}, Rates{{1}, {-1}}, Rates{{1}, {std::nan("")}}}) {
    auto solved = solveShares(bad);
    ASSERT_FALSE(solved.ok());
    EXPECT_EQ(solved.error().code(), Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace bps
