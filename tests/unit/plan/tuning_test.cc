#include "src/plan/tuning.h"

#include <gtest/gtest.h>

#include <limits>

namespace bps {
namespace {

JobPlan planOf(size_t workers, size_t servers, size_t maxChunk = 256U << 10) {
  JobPlan plan;
  plan.shares = solveShares({std::vector<double>(workers, 1.0), std::vector<double>(servers, 1.0)}).value();
  plan.limits.targetChunkBytes = plan.limits.maxChunkBytes = maxChunk;
  plan.measureSingleOwnerPath = plan.measureExchangePath = true;
  return plan;
}

CutLimits limitsFor(double rate, const JobPlan& plan) { return tuningFor(rate, plan).limits; }
size_t chunkFor(double rate, const JobPlan& plan) { return limitsFor(rate, plan).targetChunkBytes; }

Roster rosterWithRates(const std::vector<double>& bytesPerSecond) {
  Roster roster;
  for (const double rate : bytesPerSecond) roster.machines.emplace_back().bytesPerSecond = rate;
  return roster;
}

// A simulated network. A call takes `latency` seconds, plus the time of its traffic at `rate` bytes per second. The
// network records the size of every call and of its chunks.
struct FakeNetwork {
  double rate, latency = 0, traffic = 1.2;
  std::vector<size_t> calls = {};
  std::vector<size_t> chunks = {};
  TimedCall call() {
    return [this](size_t bytes, const Tuning& tuning) -> Result<double> {
      calls.push_back(bytes);
      chunks.push_back(tuning.limits.targetChunkBytes);
      return latency + traffic * static_cast<double>(bytes) / rate;
    };
  }
};

TEST(Tuning, ChunksOfAllMachinesTakeAFixedNicTime) {
  const JobPlan plan = planOf(4, 2);
  EXPECT_EQ(chunkFor(1e5, plan), 16U << 10) << "the least";
  EXPECT_EQ(chunkFor(25e6, plan), 56250U) << "200 Mbit/s: 9 ms for four of them";
  EXPECT_EQ(chunkFor(25e6, planOf(8, 2)), 28125U);
  EXPECT_EQ(chunkFor(1.25e9, planOf(64, 2)), 175781U) << "10 Gbit/s";
  EXPECT_EQ(chunkFor(1e10, plan), 256U << 10) << "the most";
}

TEST(Tuning, ChunkCostCountsHeadersAndMessageTime) {
  for (const size_t servers : {0U, 2U}) {
    EXPECT_EQ(limitsFor(1e3, planOf(4, servers)).chunkCostBytes, 200U);
    EXPECT_EQ(limitsFor(25e6, planOf(4, servers)).chunkCostBytes, 325U) << "200 Mbit/s";
    EXPECT_EQ(limitsFor(1.25e9, planOf(4, servers)).chunkCostBytes, 6450U) << "10 Gbit/s";
  }
}

TEST(Tuning, WindowTakesAFixedNicTime) {
  const JobPlan plan = planOf(4, 2);
  EXPECT_EQ(tuningFor(1e5, plan).window, 2U);
  EXPECT_EQ(tuningFor(25e6, plan).window, 2U) << "200 Mbit/s";
  EXPECT_EQ(tuningFor(125e6, plan).window, 2U) << "1 Gbit/s";
  EXPECT_EQ(tuningFor(1.25e9, plan).window, 3U) << "10 Gbit/s: chunks are as large as they may be";
  EXPECT_EQ(tuningFor(12.5e9, plan).window, 4U);
  EXPECT_EQ(tuningFor(1.25e9, planOf(16, 0)).window, 2U) << "rounds of more machines take longer";
}

TEST(Tuning, PartitionBytesBoundsTheChunk) {
  EXPECT_EQ(chunkFor(1e10, planOf(2, 0, 100000)), 100000U);
  EXPECT_EQ(chunkFor(1e5, planOf(2, 0, 4096)), 4096U);
}

TEST(Tuning, SmallCallLimitsGrowWithTheRate) {
  const JobPlan plan = planOf(4, 2);
  EXPECT_EQ(limitsFor(25e6, plan).singleOwnerBytes, 128U)
      << "200 Mbit/s: 16 KiB take 4 ms whole at one owner, 1 ms split";
  EXPECT_EQ(limitsFor(1.25e9, plan).singleOwnerBytes, 8U << 10);
  EXPECT_EQ(limitsFor(1e12, plan).singleOwnerBytes, 64U << 10);
  EXPECT_EQ(limitsFor(25e6, plan).exchangeBytes, 128U);
  EXPECT_EQ(limitsFor(1.25e9, plan).exchangeBytes, 8U << 10);
  EXPECT_EQ(limitsFor(1e12, plan).exchangeBytes, 16U << 10) << "the redundant sums are the limit";
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

TEST(Tuning, GivenRatesNeedNoMeasurement) {
  FakeNetwork network{1e9};
  const Tuning tuning = chooseTuning(planOf(3, 2), rosterWithRates({2e9, 50e6, 2e9}), network.call()).value();
  EXPECT_TRUE(network.calls.empty());
  EXPECT_EQ(tuning.limits.targetChunkBytes, chunkFor(50e6, planOf(3, 2))) << "the slowest counts";
}

TEST(Tuning, OneMachineNeedsNoMeasurement) {
  FakeNetwork network{1e9};
  ASSERT_TRUE(chooseTuning(planOf(1, 0), rosterWithRates({0}), network.call()).ok());
  EXPECT_TRUE(network.calls.empty());
}

TEST(Tuning, MeasuresUnlessAllMachinesGiveTheirRate) {
  for (const double rate : {5e6, 25e6, 125e6, 1.25e9}) {
    FakeNetwork network{rate};
    const Tuning tuning = chooseTuning(planOf(4, 2), rosterWithRates({2e9, 2e9, 2e9, 0}), network.call()).value();
    ASSERT_FALSE(network.calls.empty());
    EXPECT_EQ(network.chunks.front(), 32U << 10) << "the rate is not known yet";
    EXPECT_NEAR(static_cast<double>(tuning.limits.chunkCostBytes),
                static_cast<double>(limitsFor(rate, planOf(4, 2)).chunkCostBytes), 2);
  }
}

TEST(Tuning, MeasuringTakesABoundedTime) {
  const auto callsOn = [](double rate) {
    FakeNetwork network{rate};
    EXPECT_TRUE(chooseTuning(planOf(4, 2), rosterWithRates({0, 0, 0, 0}), network.call()).ok());
    return network.calls;
  };
  EXPECT_EQ(callsOn(5e6), (std::vector<size_t>{256U << 10})) << "one call lasts 63 ms";
  EXPECT_EQ(callsOn(25e6).size(), 4U);
  EXPECT_NEAR(static_cast<double>(callsOn(25e6).back()), 25e6 * 0.05 / 1.2, 1e3) << "50 ms";
  EXPECT_EQ(callsOn(12.5e9), (std::vector<size_t>{256U << 10, 4U << 20, 4U << 20, 4U << 20}));
}

TEST(Tuning, AFailedProbeEndsTheStart) {
  int calls = 0;
  const TimedCall fails = [&](size_t, const Tuning&) -> Result<double> {
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
