#include "src/plan/tuning.h"

#include <gtest/gtest.h>

#include <limits>

namespace bps {
namespace {

using Weights = std::vector<uint64_t>;

JobPlan planOf(size_t workers, size_t servers, size_t mostUnit = 256U << 10) {
  JobPlan plan;
  plan.shares = solveShares({std::vector<double>(workers, 1.0), std::vector<double>(servers, 1.0)}).value();
  plan.limits.targetChunkBytes = mostUnit;
  plan.depth = 4;
  return plan;
}

size_t unitOf(double rate, const JobPlan& plan) { return tuningFor(rate, plan).limits.targetChunkBytes; }

TEST(Tuning, BusiestNicTrafficEqualsTheBound) {
  EXPECT_DOUBLE_EQ(busiestTraffic(planOf(4, 0)), 1.5);
  EXPECT_DOUBLE_EQ(busiestTraffic(planOf(4, 2)), 1.2);
  EXPECT_DOUBLE_EQ(busiestTraffic(planOf(4, 4)), 1.0);
  EXPECT_DOUBLE_EQ(busiestTraffic(planOf(1, 0)), 0);
}

TEST(Tuning, RateIsEstimatedFromTheDifferenceOfTwoProbes) {
  const Probe small{256U << 10, 0.025}, middle{1U << 20, 0.075};
  EXPECT_DOUBLE_EQ(estimateRate(small, middle, 1.2), 1.2 * (768U << 10) / 0.05);
  EXPECT_DOUBLE_EQ(estimateRate({}, middle, 1.2), 1.2 * (1U << 20) / 0.075);
  EXPECT_DOUBLE_EQ(estimateRate({256U << 10, 0.074}, middle, 1), 1.5 * (1U << 20) / 0.075)
      << "half as much again, at most";
  EXPECT_DOUBLE_EQ(estimateRate({256U << 10, 0.08}, middle, 1), (1U << 20) / 0.075) << "a small probe that was delayed";
  EXPECT_DOUBLE_EQ(estimateRate({256U << 10, 0.01}, middle, 1), (1U << 20) / 0.075) << "no less than by itself";
}

TEST(Tuning, ChunksOfAllMachinesTakeAFixedNicTime) {
  const JobPlan plan = planOf(4, 2);
  EXPECT_EQ(unitOf(1e5, plan), 16U << 10) << "not below what a chunk's work is worth";
  EXPECT_EQ(unitOf(25e6, plan), 56250U) << "200 Mbit/s: 9 ms for four of them";
  EXPECT_EQ(unitOf(25e6, planOf(8, 2)), 28125U);
  EXPECT_EQ(unitOf(12.5e6, planOf(8, 2)), 16U << 10);
  EXPECT_EQ(unitOf(1.25e9, planOf(64, 2)), 175781U) << "10 Gbit/s";
  EXPECT_EQ(unitOf(1e10, plan), 256U << 10);
}

TEST(Tuning, ChunkCostCountsHeadersAndMessageTime) {
  const JobPlan plan = planOf(4, 2);
  EXPECT_EQ(tuningFor(1e3, plan).limits.chunkCostBytes, 200U);
  EXPECT_EQ(tuningFor(25e6, plan).limits.chunkCostBytes, 325U) << "200 Mbit/s";
  EXPECT_EQ(tuningFor(1.25e9, plan).limits.chunkCostBytes, 6450U) << "10 Gbit/s";
}

TEST(Tuning, ChunksFillTheirPacketsWhereMessagesAreCheap) {
  const auto roundsOf = [](double rate) {
    CutLimits limits = tuningFor(rate, planOf(8, 8)).limits;
    EXPECT_EQ(limits.messageCostBytes, 86 + static_cast<size_t>(5e-6 * rate));
    const size_t packed = Cutter(Weights(8, 1), limits).next(64U << 20, 1).rounds;
    limits.packetBytes = 0;
    return std::pair(packed, Cutter(Weights(8, 1), limits).next(64U << 20, 1).rounds);
  };
  const auto [slow, slowPlain] = roundsOf(6e6);
  EXPECT_GT(slow, slowPlain);
  const auto [fast, fastPlain] = roundsOf(3e9);
  EXPECT_EQ(fast, fastPlain);
}

TEST(Tuning, WithoutServersChunksGrowOnSlowNetworks) {
  const JobPlan plan = planOf(4, 0);
  EXPECT_EQ(tuningFor(25e6, plan).limits.chunkCostBytes, 2600U) << "200 Mbit/s: the sum takes an eighth of the time";
  EXPECT_EQ(tuningFor(1.25e9, plan).limits.chunkCostBytes, 6450U) << "10 Gbit/s";
}

TEST(Tuning, MultiRankMachinesGetSmallChunksOnlyIfFaster) {
  JobPlan plan = planOf(2, 1);
  const Tuning slow = tuningFor(40e6, plan), fast = tuningFor(1e10, plan);
  EXPECT_EQ(chunkProbeBytes(40e6, slow, plan), 0U) << "a machine is one rank";
  plan.hasMultiRankMachine = true;
  EXPECT_EQ(chunkProbeBytes(40e6, slow, plan), 4'000'000U);
  EXPECT_EQ(chunkProbeBytes(1e6, tuningFor(1e6, plan), plan), 0U) << "would take too long";
  EXPECT_EQ(chunkProbeBytes(1e10, fast, plan), 0U) << "they are not small";
  EXPECT_EQ(chooseFasterChunks(slow, 0.1, 0.11, plan).limits.targetChunkBytes, slow.limits.targetChunkBytes);
  EXPECT_EQ(chooseFasterChunks(slow, 0.1, 0.099, plan).limits.targetChunkBytes, slow.limits.targetChunkBytes);
  EXPECT_EQ(chooseFasterChunks(slow, 0.1, 0.03, plan).limits.targetChunkBytes, plan.limits.targetChunkBytes);
}

TEST(Tuning, WindowTakesAFixedNicTime) {
  const JobPlan plan = planOf(4, 2);
  EXPECT_EQ(tuningFor(25e6, plan).window, 2U) << "200 Mbit/s";
  EXPECT_EQ(tuningFor(125e6, plan).window, 2U) << "1 Gbit/s";
  EXPECT_EQ(tuningFor(1.25e9, plan).window, 3U) << "10 Gbit/s: chunks are as large as they may be";
  EXPECT_EQ(tuningFor(12.5e9, plan).window, 4U);
  EXPECT_EQ(tuningFor(1.25e9, planOf(16, 0)).window, 2U) << "rounds of more machines take longer";
  EXPECT_EQ(tuningFor(1e5, plan).window, 2U);
}

TEST(Tuning, RateIsKnownOnlyIfAllMachinesConfigureIt) {
  Roster roster;
  roster.machines.resize(3);
  for (Machine& machine : roster.machines) machine.bytesPerSecond = 2e9;
  EXPECT_DOUBLE_EQ(knownRate(roster), 2e9);
  roster.machines[1].bytesPerSecond = 1e9;
  EXPECT_DOUBLE_EQ(knownRate(roster), 1e9);
  roster.machines[2].bytesPerSecond = 0;
  EXPECT_DOUBLE_EQ(knownRate(roster), 0);
}

TEST(Tuning, PartitionBytesBoundsTheChunk) {
  EXPECT_EQ(unitOf(1e10, planOf(2, 0, 100000)), 100000U);
  EXPECT_EQ(unitOf(1e5, planOf(2, 0, 4096)), 4096U);
}

TEST(Tuning, SmallCallLimitsShrinkOnSlowNetworks) {
  JobPlan plan = planOf(4, 2);
  plan.measureSingleOwnerPath = plan.measureExchangePath = true;
  EXPECT_EQ(tuningFor(25e6, plan).limits.singleOwnerBytes, 128U)
      << "200 Mbit/s: 16 KiB whole at one owner would take 4 ms, not 1";
  EXPECT_EQ(tuningFor(1.25e9, plan).limits.singleOwnerBytes, 8U << 10);
  EXPECT_EQ(tuningFor(1e12, plan).limits.singleOwnerBytes, 64U << 10);
  EXPECT_EQ(tuningFor(25e6, plan).limits.exchangeBytes, 128U);
  EXPECT_EQ(tuningFor(1.25e9, plan).limits.exchangeBytes, 8U << 10);
  EXPECT_EQ(tuningFor(1e12, plan).limits.exchangeBytes, 64U << 10);
}

TEST(Tuning, MessagesCostMoreWhenMachinesShareAHost) {
  JobPlan plan = planOf(4, 0);
  plan.measureSingleOwnerPath = true;
  plan.machinesPerHost = 4;
  EXPECT_EQ(tuningFor(0.625e9, plan).limits.singleOwnerBytes, 32U << 10);
}

TEST(Tuning, SmallCallsAreNotCutBelowTheMessageCost) {
  JobPlan plan = planOf(4, 0);
  const auto finest = [&](double rate) { return tuningFor(rate, plan).limits.minChunkBytes; };
  EXPECT_EQ(finest(25e6), CutLimits().minChunkBytes) << "200 Mbit/s";
  EXPECT_EQ(finest(2.5e9), 50000U) << "four messages of 5 us";
  EXPECT_EQ(finest(1e12), 128U << 10) << "half a chunk";
  plan.machinesPerHost = 4;
  EXPECT_EQ(finest(25e6), CutLimits().minChunkBytes) << "emulated machines";
  EXPECT_EQ(finest(0.5e9), 120000U);
  EXPECT_EQ(finest(2.5e9), 256U << 10) << "whole";
  plan.machinesPerHost = 8;
  EXPECT_EQ(finest(25e6), 12000U) << "one message of each of eight machines";
  plan.limits.targetChunkBytes = plan.limits.minChunkBytes = 4096;
  EXPECT_EQ(finest(1e12), 4096U);
}

TEST(Tuning, TwoMachinesUseTheExchangePathForLargerCalls) {
  JobPlan plan = planOf(2, 0);
  plan.measureExchangePath = true;
  EXPECT_EQ(tuningFor(1e6, plan).limits.exchangeBytes, 4U << 20);
  plan.limits.maxChunkBytes = 64U << 20;
  EXPECT_EQ(tuningFor(1e6, plan).limits.exchangeBytes, 64U << 20);
}

TEST(Tuning, TwoMachinesOnAFastHostSplitTheSum) {
  JobPlan plan = planOf(2, 0);
  plan.measureExchangePath = true;
  plan.machinesPerHost = 2;
  EXPECT_EQ(tuningFor(3e9, plan).limits.exchangeBytes, plan.limits.maxChunkBytes);
  EXPECT_EQ(tuningFor(25e6, plan).limits.exchangeBytes, 4U << 20) << "200 Mbit/s, emulated";
}

TEST(Tuning, LargeCallsOfTwoMachinesAreSplitWithServersOrRails) {
  JobPlan plan = planOf(2, 1);
  plan.measureExchangePath = true;
  EXPECT_EQ(tuningFor(1e6, plan).limits.exchangeBytes, plan.limits.maxChunkBytes);
  plan = planOf(2, 0);
  plan.measureExchangePath = plan.hasMultiRankMachine = true;
  EXPECT_EQ(tuningFor(1e6, plan).limits.exchangeBytes, plan.limits.maxChunkBytes);
}

TEST(Tuning, UserSettingsOverrideTuning) {
  JobPlan plan = planOf(4, 0);
  plan.limits.singleOwnerBytes = 777;
  plan.limits.exchangeBytes = 99;
  EXPECT_EQ(tuningFor(1e12, plan).limits.singleOwnerBytes, 777U);
  EXPECT_EQ(tuningFor(1e3, plan).limits.exchangeBytes, 99U);
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
    EXPECT_STREQ(slowest.error().message(), "rank 1 (hostB, pid 2): its time of a probe cannot be read");
  }
}

}  // namespace
}  // namespace bps
