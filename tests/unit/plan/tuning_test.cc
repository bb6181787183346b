#include "src/plan/tuning/tuning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "src/comm/startup/probe_times.h"

namespace bps {
namespace {

JobPlan planOf(size_t workers, size_t servers, size_t maxChunk = 256U << 10) {
  JobPlan plan;
  plan.shares = solveShares({std::vector<double>(workers, 1.0), std::vector<double>(servers, 1.0)}).value();
  plan.weights = plan.shares.weights;
  plan.limits.targetChunkBytes = plan.limits.maxChunkBytes = maxChunk;
  plan.measureSingleOwnerPath = plan.measureExchangePath = true;
  return plan;
}

// Costs of a network where messages hardly count. A small call takes 20 us on one owner, and 20 us longer if split.
NetworkCosts costsAt(double rate) { return {.rate = rate, .singleOwner = 20e-6, .split = 40e-6, .exchange = 15e-6}; }
CutLimits limitsFor(double rate, const JobPlan& plan) { return tuningFor(costsAt(rate), plan).limits; }
size_t chunkFor(double rate, const JobPlan& plan) { return limitsFor(rate, plan).targetChunkBytes; }

Roster rosterWithRates(const std::vector<double>& bytesPerSecond) {
  Roster roster;
  for (const double rate : bytesPerSecond) roster.machines.emplace_back().bytesPerSecond = rate;
  return roster;
}

// A simulated network of four machines and two servers. A call takes `latency` seconds, plus the time of its traffic at
// `rate` bytes per second, plus `round` seconds for every round. The traffic is the bytes that the busiest NIC sends
// for a byte of the buffer. The network records all calls.
struct FakeNetwork {
  double rate, latency = 20e-6, round = 0, traffic = 1.2, singleOwnerTraffic = 6, exchangeTraffic = 3;
  std::vector<size_t> calls = {};
  std::vector<CutLimits> limits = {};
  TimedCalls run() {
    return [this](size_t bytes, int, const CutLimits& used) -> Result<double> {
      calls.push_back(bytes);
      limits.push_back(used);
      const double rounds = std::ceil(0.3 * static_cast<double>(bytes) / static_cast<double>(used.targetChunkBytes));
      const bool exchanged = bytes <= used.exchangeBytes, whole = exchanged || bytes <= used.singleOwnerBytes;
      const double sent = exchanged ? exchangeTraffic : whole ? singleOwnerTraffic : traffic;
      return latency * (whole ? 1 : 2) + sent * static_cast<double>(bytes) / rate + round * rounds;
    };
  }
  // The calls that measure the rate.
  std::vector<size_t> largeCalls() const {
    std::vector<size_t> large;
    std::copy_if(calls.begin(), calls.end(), std::back_inserter(large), [](size_t bytes) { return bytes > 64U << 10; });
    return large;
  }
};

// Twice the chunks in flight, at least, and never so long that a late peer delays other calls noticeably.
TEST(Tuning, TheHoldTimeCoversTheChunksInFlightAtEveryRate) {
  for (const size_t servers : {0UL, 2UL, 4UL})
    for (const double rate : {1.25e6, 12.5e6, 25e6, 125e6, 1.25e9, 12.5e9}) {
      const JobPlan plan = planOf(4, servers);
      for (const double latency : {20e-6, 20e-3}) {
        NetworkCosts costs = costsAt(rate);
        costs.singleOwner = latency;
        const Tuning tuning = tuningFor(costs, plan);
        const double round = 4 * static_cast<double>(tuning.limits.targetChunkBytes) / rate;
        EXPECT_GE(holdSeconds(tuning, plan), std::max(2e-3, 2 * (2 * 3.8 * round + latency))) << rate;
        EXPECT_LE(holdSeconds(tuning, plan), 2e-3 + 16 * round + 2 * latency) << rate;
      }
    }
  EXPECT_EQ(holdSeconds({}, planOf(1, 0)), 2e-3) << "there is no network";
}

TEST(Tuning, ChunksOfAllMachinesTakeAFixedNicTime) {
  const JobPlan plan = planOf(4, 2);
  EXPECT_EQ(chunkFor(1e5, plan), 12U << 10) << "the least";
  EXPECT_EQ(chunkFor(25e6, plan), 23438U) << "200 Mbit/s: 3.75 ms for four of them";
  EXPECT_EQ(chunkFor(25e6, planOf(8, 2)), 12288U) << "the least";
  EXPECT_EQ(chunkFor(1.25e9, planOf(64, 2)), 73242U) << "10 Gbit/s";
  EXPECT_EQ(chunkFor(1e10, plan), 256U << 10) << "the most";
}

// The traffic of the busiest NIC is 1.5 times the buffer without servers, and 1.2 times with two servers.
TEST(Tuning, ChunkCostCountsHeadersAndMessageTimeAgainstTwoRoundsOfTheCall) {
  const auto costOf = [](double rate, size_t servers) { return limitsFor(rate, planOf(4, servers)).chunkCostBytes; };
  for (const auto& [servers, parts] : {std::pair<size_t, double>{0, 2 * 1.5}, {2, 2 * 1.2 * 6 / 4}}) {
    EXPECT_EQ(costOf(1e3, servers), std::llround(200 / parts));
    EXPECT_EQ(costOf(25e6, servers), std::llround(325 / parts)) << "200 Mbit/s";
    EXPECT_EQ(costOf(1.25e9, servers), std::llround(6450 / parts)) << "10 Gbit/s";
  }
}

TEST(Tuning, LatencyBytesPassTheNicDuringASmallCall) {
  EXPECT_EQ(limitsFor(25e6, planOf(4, 2)).latencyBytes, 125U);
  NetworkCosts slow = costsAt(25e6);
  slow.singleOwner = 10e-3;
  EXPECT_EQ(tuningFor(slow, planOf(4, 2)).limits.latencyBytes, 62500U);
}

TEST(Tuning, PartitionBytesBoundsTheChunk) {
  EXPECT_EQ(chunkFor(1e10, planOf(2, 0, 100000)), 100000U);
  EXPECT_EQ(chunkFor(1e5, planOf(2, 0, 4096)), 4096U);
}

TEST(Tuning, SmallCallLimitsGrowWithTheRateAndTheCostOfMessages) {
  const JobPlan plan = planOf(4, 0);
  EXPECT_EQ(limitsFor(25e6, plan).singleOwnerBytes, 64U) << "20 us are 111 bytes at one owner instead of four";
  EXPECT_EQ(limitsFor(1.25e9, plan).singleOwnerBytes, 4U << 10);
  EXPECT_EQ(limitsFor(1e12, plan).singleOwnerBytes, 64U << 10);
  NetworkCosts crowded = costsAt(1.25e9);
  crowded.split += 80e-6;
  EXPECT_EQ(tuningFor(crowded, plan).limits.singleOwnerBytes, 16U << 10);
  EXPECT_EQ(limitsFor(25e6, plan).exchangeBytes, 256U);
  EXPECT_EQ(limitsFor(1.25e9, plan).exchangeBytes, 16U << 10);
}

TEST(Tuning, SplittingThatCostsNothingLeavesNoSmallCallPath) {
  NetworkCosts costs = costsAt(1.25e9);
  costs.split = 5e-6;
  EXPECT_EQ(tuningFor(costs, planOf(4, 0)).limits.singleOwnerBytes, 0U);
  EXPECT_EQ(tuningFor(costs, planOf(4, 0)).limits.exchangeBytes, 0U);
}

TEST(Tuning, AnExchangeThatIsSlowerThanASingleOwnerIsNotUsed) {
  NetworkCosts costs = costsAt(1.25e9);
  costs.exchange = 21e-6;
  EXPECT_EQ(tuningFor(costs, planOf(16, 0)).limits.exchangeBytes, 0U);
  EXPECT_EQ(tuningFor(costs, planOf(2, 0)).limits.exchangeBytes, 4U << 20) << "two machines always use it";
}

TEST(Tuning, MeasuredTimesOfLargeCallsReplaceThoseThatFollowFromTheRate) {
  const JobPlan plan = planOf(4, 0);
  NetworkCosts costs = costsAt(1.25e9);
  costs.larger = {.bytes = 64U << 10, .singleOwner = 200e-6, .split = 220e-6, .exchange = 190e-6};
  EXPECT_EQ(tuningFor(costs, plan).limits.singleOwnerBytes, 64U << 10) << "never slower than split";
  EXPECT_EQ(tuningFor(costs, plan).limits.exchangeBytes, 64U << 10);
  costs.larger = {.bytes = 64U << 10, .singleOwner = 220e-6, .split = 200e-6, .exchange = 300e-6};
  EXPECT_EQ(tuningFor(costs, plan).limits.singleOwnerBytes, 32U << 10) << "saves 20 us at first, loses 20 us at last";
  EXPECT_EQ(tuningFor(costs, plan).limits.exchangeBytes, 2U << 10) << "5 us against 80 us, compared with one owner";
  costs.larger = {.bytes = 64U << 10, .singleOwner = 600e-6, .split = 60e-6, .exchange = 160e-6};
  EXPECT_EQ(tuningFor(costs, plan).limits.singleOwnerBytes, 2U << 10);
  EXPECT_EQ(tuningFor(costs, plan).limits.exchangeBytes, 8U << 10) << "25 us against 100 us, compared with split";
}

TEST(Tuning, TimesAreExtrapolatedBeyondTheMeasuredCalls) {
  NetworkCosts costs = costsAt(25e6);
  costs.larger = {.bytes = 4U << 10, .singleOwner = 30e-6, .split = 45e-6};
  EXPECT_EQ(tuningFor(costs, planOf(4, 0)).limits.singleOwnerBytes, 16U << 10) << "5 of 20 us less in 4 KiB";
}

TEST(Tuning, LargerCallsAreMeasuredForABoundedTime) {
  JobPlan plan = planOf(4, 2);
  plan.limits.exchangeChunkBytes = 16U << 10;
  const auto measuredAt = [&](double rate) {
    FakeNetwork network{rate};
    const auto larger = chooseTuning(plan, rosterWithRates({0, 0, 0, 0}), network.run()).value().costs.larger;
    return larger ? larger->bytes : 0;
  };
  EXPECT_NEAR(static_cast<double>(measuredAt(5e6)), 5e6 * 0.05 / 4 / 6, 500) << "50 ms for four calls";
  EXPECT_EQ(measuredAt(600e3), 0U) << "less than 256 bytes for each owner";
  // Machines that share CPUs: one owner alone gets as much as all together.
  FakeNetwork shared{.rate = 500e6, .singleOwnerTraffic = 1.2, .exchangeTraffic = 4};
  const Tuning tuning = chooseTuning(plan, rosterWithRates({0, 0, 0, 0}), shared.run()).value();
  EXPECT_EQ(tuning.costs.larger->bytes, 64U << 10);
  EXPECT_EQ(tuning.limits.singleOwnerBytes, 64U << 10);
  EXPECT_EQ(shared.limits.back().chunkCostBytes, tuning.limits.chunkCostBytes) << "cut like a call of the application";
  EXPECT_EQ(shared.limits.back().targetChunkBytes, tuning.limits.targetChunkBytes);
  FakeNetwork far{.rate = 500e6, .latency = 20e-3};
  EXPECT_FALSE(chooseTuning(plan, rosterWithRates({0, 0, 0, 0}), far.run()).value().costs.larger.has_value());
  EXPECT_NEAR(tuning.costs.larger->exchange, 20e-6 + 4 * 65536 / 500e6, 1e-6);
  EXPECT_EQ(chooseTuning(plan, rosterWithRates({5e8, 5e8, 5e8, 5e8}), shared.run()).value().limits.singleOwnerBytes,
            64U << 10)
      << "also if the rate is given";
}

TEST(Tuning, WithoutASingleOwnerPathTheExchangeIsComparedWithSplitCallsOnly) {
  NetworkCosts costs = costsAt(1.25e9);
  costs.exchange = 21e-6;
  JobPlan plan = planOf(16, 0);
  plan.measureSingleOwnerPath = false;
  plan.limits.singleOwnerBytes = 0;
  EXPECT_GT(tuningFor(costs, plan).limits.exchangeBytes, 0U);
}

TEST(Tuning, TwoMachinesExchangeUntilTheirSumsAreTheLimit) {
  for (const double rate : {1e6, 25e6, 1.25e9}) EXPECT_EQ(limitsFor(rate, planOf(2, 0)).exchangeBytes, 4U << 20);
  EXPECT_EQ(limitsFor(5e9, planOf(2, 0)).exchangeBytes, 256U << 10);
  EXPECT_EQ(limitsFor(12.5e9, planOf(2, 0)).exchangeBytes, 64U << 10) << "100 Gbit/s";
  JobPlan rails = planOf(2, 0);
  rails.rails = 2;
  EXPECT_EQ(limitsFor(25e6, rails).exchangeBytes, 64U << 10) << "larger calls use all rails";
  EXPECT_EQ(limitsFor(25e6, planOf(2, 1)).exchangeBytes, 64U << 10) << "larger calls use the server";
}

TEST(Tuning, UserLimitsOverrideTuning) {
  JobPlan plan = planOf(4, 0);
  plan.measureSingleOwnerPath = plan.measureExchangePath = false;
  plan.limits.singleOwnerBytes = 777;
  plan.limits.exchangeBytes = 99;
  EXPECT_EQ(limitsFor(1e12, plan).singleOwnerBytes, 777U);
  EXPECT_EQ(limitsFor(1e3, plan).exchangeBytes, 99U);
}

TEST(Tuning, OfGivenRatesOnlySmallCallsAreMeasured) {
  FakeNetwork network{1e9};
  const Tuning tuning = chooseTuning(planOf(3, 2), rosterWithRates({2e9, 50e6, 2e9}), network.run()).value();
  EXPECT_TRUE(network.largeCalls().empty());
  EXPECT_EQ(tuning.limits.targetChunkBytes, chunkFor(50e6, planOf(3, 2))) << "the slowest counts";
  EXPECT_NEAR(tuning.costs.singleOwner, network.latency, 1e-6);
}

TEST(Tuning, OneMachineNeedsNoMeasurement) {
  FakeNetwork network{1e9};
  ASSERT_TRUE(chooseTuning(planOf(1, 0), rosterWithRates({0}), network.run()).ok());
  EXPECT_TRUE(network.calls.empty());
}

TEST(Tuning, MeasuresTheSmallestCallOnEachPath) {
  JobPlan plan = planOf(4, 2);
  plan.limits.exchangeChunkBytes = 4096;
  FakeNetwork network{125e6};
  const NetworkCosts costs = chooseTuning(plan, rosterWithRates({0, 0, 0, 0}), network.run()).value().costs;
  EXPECT_NEAR(costs.singleOwner, 20e-6, 1e-6);
  EXPECT_NEAR(costs.exchange, 20e-6, 1e-6);
  EXPECT_NEAR(costs.split, 40e-6, 5e-6);
}

TEST(Tuning, MeasuresTheRateUnlessAllMachinesGiveTheirs) {
  for (const double rate : {5e6, 25e6, 125e6, 1.25e9}) {
    FakeNetwork network{rate};
    const Tuning tuning = chooseTuning(planOf(4, 2), rosterWithRates({2e9, 2e9, 2e9, 0}), network.run()).value();
    EXPECT_NEAR(tuning.costs.rate, rate, rate / 50);
    EXPECT_EQ(tuning.costs.message, constants::kMessageSeconds) << "messages cost nothing here";
  }
}

TEST(Tuning, TheLatencyIsNoPartOfTheRate) {
  for (const double latency : {1e-3, 10e-3}) {
    FakeNetwork network{.rate = 25e6, .latency = latency / 2};  // a large call takes twice the latency of a small one
    const Tuning tuning = chooseTuning(planOf(4, 2), rosterWithRates({0, 0, 0, 0}), network.run()).value();
    EXPECT_NEAR(tuning.costs.rate, 25e6, 3e6);
    EXPECT_GT(network.largeCalls().size(), 1U) << "the latency is no reason to measure less";
  }
}

TEST(Tuning, SmallerChunksShowWhatMessagesCost) {
  for (const double round : {1e-3, 4e-3}) {
    FakeNetwork network{.rate = 500e6, .round = round};
    const Tuning tuning = chooseTuning(planOf(4, 2), rosterWithRates({0, 0, 0, 0}), network.run()).value();
    EXPECT_NEAR(tuning.costs.message, round / 4, round / 20);
    if (round < 2e-3) EXPECT_NEAR(tuning.costs.rate, 500e6, 75e6) << "without the time of the messages";
    else EXPECT_GT(tuning.costs.rate, 100e6) << "at most three quarters of the time are those of messages";
  }
}

TEST(Tuning, ChunksThatCannotBeSmallerShowNoCostOfMessages) {
  for (const size_t partition : {64U, 1000U, 8192U}) {
    FakeNetwork network{.rate = 500e6, .round = 1e-3};
    const Tuning tuning = chooseTuning(planOf(4, 2, partition), rosterWithRates({0, 0, 0, 0}), network.run()).value();
    EXPECT_TRUE(std::isfinite(tuning.costs.message));
    for (const CutLimits& limits : network.limits) EXPECT_LE(limits.targetChunkBytes, partition);
  }
}

TEST(Tuning, MeasuringTakesABoundedTime) {
  const auto callsOn = [](double rate) {
    FakeNetwork network{rate};
    EXPECT_TRUE(chooseTuning(planOf(4, 2), rosterWithRates({0, 0, 0, 0}), network.run()).ok());
    return network.largeCalls();
  };
  EXPECT_EQ(callsOn(5e6), (std::vector<size_t>{256U << 10})) << "one call lasts 63 ms";
  EXPECT_EQ(callsOn(25e6).size(), 5U);
  EXPECT_NEAR(static_cast<double>(callsOn(25e6).back()), 25e6 * 0.05 / 1.2, 5e3) << "50 ms";
  EXPECT_EQ(callsOn(12.5e9), (std::vector<size_t>{256U << 10, 4U << 20, 4U << 20, 4U << 20, 4U << 20}));
}

TEST(Tuning, AFailedProbeEndsTheStart) {
  int calls = 0;
  const TimedCalls fails = [&](size_t, int, const CutLimits&) -> Result<double> {
    if (++calls < 3) return 0.001;
    return Status(Code::kRemote, "rank 1 left");
  };
  const Result<Tuning> tuning = chooseTuning(planOf(4, 2), rosterWithRates({0, 0, 0, 0}), fails);
  ASSERT_FALSE(tuning.ok());
  EXPECT_STREQ(tuning.error().message(), "rank 1 left");
}

TEST(Tuning, InvalidProbeTimesNameTheRank) {
  Roster roster;
  roster.ranks = {{"a", "hostA", 1, 0, 0}, {"b", "hostB", 2, 1, 0}};
  const Blob good = encodeSeconds(0.5);
  EXPECT_EQ(slowestSeconds({good, encodeSeconds(2)}, roster).value(), 2);
  const double infinite = std::numeric_limits<double>::infinity(), none = std::numeric_limits<double>::quiet_NaN();
  for (const Blob& bad :
       {Blob{}, Blob(9), encodeSeconds(-1), encodeSeconds(1e9), encodeSeconds(infinite), encodeSeconds(none)}) {
    const Result<double> slowest = slowestSeconds({good, bad}, roster);
    ASSERT_FALSE(slowest.ok());
    EXPECT_STREQ(slowest.error().message(), "rank 1 (hostB, pid 2): the time of its probe is not valid");
  }
}

}  // namespace
}  // namespace bps
