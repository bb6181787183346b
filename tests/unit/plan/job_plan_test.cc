#include "src/plan/job_plan.h"

#include <gtest/gtest.h>

#include "src/base/env.h"

namespace bps {
namespace {

// Returns a roster of `machines` machines that have one rank each.
Roster rosterOf(uint32_t machines) {
  Roster roster;
  roster.settings.partitionBytes = 4U << 20;
  roster.settings.exchangeBytes = roster.settings.singleOwnerBytes = Bytes::kMeasured;
  for (uint32_t number = 0; number < machines; ++number) {
    roster.ranks.push_back({.hostId = std::to_string(number), .hostName = "a", .machine = number});
    roster.machines.push_back({.ranks = {number}});
  }
  return roster;
}

TEST(JobPlan, FewMachinesMayUseTheExchangePath) {
  EXPECT_EQ(JobPlan::make(rosterOf(1)).value().limits.exchangeMachines, 0U);
  EXPECT_EQ(JobPlan::make(rosterOf(2)).value().limits.exchangeMachines, 2U);
  EXPECT_EQ(JobPlan::make(rosterOf(8)).value().limits.exchangeMachines, 8U);
  EXPECT_EQ(JobPlan::make(rosterOf(9)).value().limits.exchangeMachines, 0U);
  Roster given = rosterOf(9);
  given.settings.exchangeBytes = 4096;
  EXPECT_EQ(JobPlan::make(given).value().limits.exchangeMachines, 9U) << "the user gives the limit";
  given = rosterOf(2);
  given.settings.exchangeBytes = 0;
  EXPECT_EQ(JobPlan::make(given).value().limits.exchangeMachines, 0U) << "the user forbids it";
}

TEST(JobPlan, PartitionBytesBoundsEveryChunk) {
  EXPECT_EQ(JobPlan::make(rosterOf(2)).value().limits.maxChunkBytes, 256U << 10);
  Roster bounded = rosterOf(2);
  bounded.settings.partitionBytes = 64U << 10;
  EXPECT_EQ(JobPlan::make(bounded).value().limits.maxChunkBytes, 64U << 10);
  EXPECT_EQ(JobPlan::make(bounded).value().limits.targetChunkBytes, 64U << 10);
}

TEST(JobPlan, SeveralRanksPerMachineCutAtLargerQuanta) {
  Roster roster = rosterOf(2);
  EXPECT_EQ(JobPlan::make(roster).value().limits.quantumBytes, 64U);
  roster.ranks.push_back(roster.ranks.back());
  roster.machines.back().ranks.push_back(2);
  EXPECT_EQ(JobPlan::make(roster).value().limits.quantumBytes, 3072U);
}

}  // namespace
}  // namespace bps
