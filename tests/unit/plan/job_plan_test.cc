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

size_t exchangeChunkOf(const Roster& roster) { return JobPlan::make(roster).value().limits.exchangeChunkBytes; }

TEST(JobPlan, ChunksOnTheExchangePathAreSmallerWithMoreMachines) {
  EXPECT_EQ(exchangeChunkOf(rosterOf(1)), 0U) << "one machine exchanges nothing";
  EXPECT_EQ(exchangeChunkOf(rosterOf(2)), 256U << 10);
  EXPECT_EQ(exchangeChunkOf(rosterOf(8)), 64U << 10);
  EXPECT_EQ(exchangeChunkOf(rosterOf(16)), 16U << 10) << "all chunks are at most 128 KiB";
  EXPECT_EQ(exchangeChunkOf(rosterOf(64)), 4U << 10);
  EXPECT_EQ(exchangeChunkOf(rosterOf(1000)), 4U << 10);
  Roster given = rosterOf(2);
  given.settings.partitionBytes = 16U << 10;
  EXPECT_EQ(exchangeChunkOf(given), 16U << 10) << "the user limits all chunks";
  given.settings.exchangeBytes = 0;
  EXPECT_EQ(exchangeChunkOf(given), 0U) << "the user forbids the exchange path";
}

TEST(JobPlan, EveryEndpointMayTakeOverTheShareOfALostServer) {
  Roster roster = rosterOf(2);
  for (int server = 0; server < 2; ++server) roster.servers.push_back({.name = "server"});
  const JobPlan plan = JobPlan::make(roster).value();
  EXPECT_EQ(plan.weights[0], 0U);
  EXPECT_EQ(plan.owners, std::vector<bool>(4, true));
  std::vector<ServerEntry> servers = roster.servers;
  servers[0].present = false;
  const std::vector<uint64_t> left = weightsWith(roster, servers).value();
  EXPECT_GT(left[0], 0U);
  EXPECT_EQ(left[2], 0U);
  EXPECT_EQ(std::vector<uint64_t>({left[0], left[1], left[3]}), [&] {
    roster.servers.pop_back();
    return JobPlan::make(roster).value().weights;
  }());
  roster.servers[0].present = false;
  const JobPlan withoutServer = JobPlan::make(roster).value();
  EXPECT_EQ(withoutServer.weights, (std::vector<uint64_t>{left[0], left[0], 0}));
  EXPECT_EQ(withoutServer.owners, (std::vector<bool>{true, true, false}));
  EXPECT_EQ(withoutServer.shares.servers, std::vector<double>{0});
}

TEST(JobPlan, EveryMachineMayTakeOverParameters) {
  Roster roster = rosterOf(3);
  roster.machines[2].bytesPerSecond = 6e6;
  for (int fast : {0, 1}) roster.machines[static_cast<size_t>(fast)].bytesPerSecond = 1e7;
  EXPECT_EQ(JobPlan::make(roster).value().owners, (std::vector<bool>{true, true, false})) << "too slow to sum";
  roster.settings.parameters = true;
  EXPECT_EQ(JobPlan::make(roster).value().owners, std::vector<bool>(3, true));
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
