#include "src/comm/tuning.h"

#include <gtest/gtest.h>

namespace bps {
namespace {

JobPlan planOf(size_t workers, size_t servers, size_t mostUnit = 256U << 10) {
  JobPlan plan;
  plan.shares = solveShares({std::vector<double>(workers, 1.0), std::vector<double>(servers, 1.0)}).value();
  plan.limits.unitBytes = mostUnit;
  return plan;
}

TEST(Tuning, BusiestNicSendsTheBoundsBytes) {
  EXPECT_DOUBLE_EQ(busiestTraffic(planOf(4, 0)), 1.5);
  EXPECT_DOUBLE_EQ(busiestTraffic(planOf(4, 2)), 1.2);
  EXPECT_DOUBLE_EQ(busiestTraffic(planOf(4, 4)), 1.0);
  EXPECT_DOUBLE_EQ(busiestTraffic(planOf(1, 0)), 0);
}

TEST(Tuning, ChunkIsATimeOfTheNicWithinLimits) {
  const JobPlan plan = planOf(4, 2);
  EXPECT_EQ(unitFor(1e5, plan), 16U << 10) << "not below what a chunk's work is worth";
  EXPECT_EQ(unitFor(24e6, plan), 16U << 10);
  EXPECT_EQ(unitFor(60e6, plan), 32U << 10);
  EXPECT_EQ(unitFor(119e6, plan), 64U << 10);
  EXPECT_EQ(unitFor(1e10, plan), 256U << 10);
  for (double rate = 1e6; rate < 1e10; rate *= 1.3) EXPECT_LE(unitFor(rate, plan), unitFor(rate * 1.3, plan));
}

TEST(Tuning, RateIsKnownOnlyWhenAllMachinesSayTheirs) {
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
  EXPECT_EQ(unitFor(1e10, planOf(2, 0, 100000)), 100000U);
  EXPECT_EQ(unitFor(1e5, planOf(2, 0, 4096)), 4096U);
}

}  // namespace
}  // namespace bps
