#include "src/plan/job_plan.h"

#include <gtest/gtest.h>

#include "src/base/env.h"

namespace bps {
namespace {

// A machine of one rank on each of these hosts.
Roster rosterOn(const std::vector<std::string>& hosts) {
  Roster roster;
  roster.settings.partitionBytes = 4U << 20;
  roster.settings.exchangeBytes = roster.settings.singleOwnerBytes = Bytes::kMeasured;
  for (const std::string& host : hosts) {
    const auto number = static_cast<uint32_t>(roster.ranks.size());
    roster.ranks.push_back({.hostId = host + std::to_string(number), .hostName = host, .machine = number});
    roster.machines.push_back({.ranks = {number}});
  }
  return roster;
}

JobPlan planOn(const std::vector<std::string>& hosts) { return JobPlan::make(rosterOn(hosts)).value(); }

TEST(JobPlan, CountsTheMachinesThatShareAHost) {
  EXPECT_EQ(planOn({"a"}).machinesPerHost, 1U);
  EXPECT_EQ(planOn({"a", "b", "c"}).machinesPerHost, 1U);
  EXPECT_EQ(planOn({"a", "b", "b", "a", "b"}).machinesPerHost, 3U) << "the largest number";
}

TEST(JobPlan, MachinesOfOneHostUseTheExchangePathOnlyInPairs) {
  EXPECT_EQ(planOn({"a", "b", "c"}).limits.exchangeMachines, 3U);
  EXPECT_EQ(planOn({"a", "a"}).limits.exchangeMachines, 2U);
  EXPECT_EQ(planOn({"a", "b", "a"}).limits.exchangeMachines, 0U);
  EXPECT_EQ(planOn(std::vector<std::string>(9, "a")).limits.exchangeMachines, 0U);
  Roster configured = rosterOn({"a", "b", "a"});
  configured.settings.exchangeBytes = 4096;
  EXPECT_EQ(JobPlan::make(configured).value().limits.exchangeMachines, 3U) << "the setting wins";
}

TEST(JobPlan, OneHostHasFewerAndLargerChunksInFlightThanANetwork) {
  const auto cuts = [](const JobPlan& plan) {
    EXPECT_EQ(plan.limits.targetChunkBytes, plan.limits.maxChunkBytes);
    return std::pair(plan.depth, plan.limits.targetChunkBytes);
  };
  const std::pair<size_t, size_t> ofNetwork{4, 256U << 10}, ofHost{2, 512U << 10};
  EXPECT_EQ(cuts(planOn({"a", "a"})), ofHost);
  EXPECT_EQ(cuts(planOn({"a", "b"})), ofNetwork);
  EXPECT_EQ(cuts(planOn({"a", "a", "b"})), ofNetwork) << "some of it";
  EXPECT_EQ(cuts(planOn({"a"})), ofNetwork) << "nothing is sent";
  Roster served = rosterOn({"a", "a"});
  served.servers.emplace_back();
  EXPECT_EQ(cuts(JobPlan::make(served).value()), ofNetwork) << "a server may be anywhere";
  Roster shared = rosterOn({"a", "a"});
  shared.ranks.push_back(shared.ranks.back());
  shared.machines.back().ranks.push_back(2);
  EXPECT_EQ(cuts(JobPlan::make(shared).value()), ofNetwork) << "their ring has slots of a chunk";
  Roster bounded = rosterOn({"a", "a"});
  bounded.settings.partitionBytes = 64U << 10;
  EXPECT_EQ(JobPlan::make(bounded).value().limits.targetChunkBytes, 64U << 10);
}

}  // namespace
}  // namespace bps
