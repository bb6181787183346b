#include "src/service/job_plan.h"

#include <gtest/gtest.h>

#include "src/base/env.h"

namespace bps {
namespace {

// A machine of one rank on each of these hosts.
Roster rosterOn(const std::vector<std::string>& hosts) {
  Roster roster;
  roster.settings.partitionBytes = 4U << 20;
  roster.settings.directBytes = roster.settings.eagerBytes = Bytes::kMeasured;
  for (const std::string& host : hosts) {
    const auto number = static_cast<uint32_t>(roster.ranks.size());
    roster.ranks.push_back({.hostId = host + std::to_string(number), .hostName = host, .machine = number});
    roster.machines.push_back({.ranks = {number}});
  }
  return roster;
}

JobPlan planOn(const std::vector<std::string>& hosts) { return JobPlan::make(rosterOn(hosts)).value(); }

TEST(JobPlan, CountsTheMachinesThatShareAHost) {
  EXPECT_EQ(planOn({"a"}).perHost, 1U);
  EXPECT_EQ(planOn({"a", "b", "c"}).perHost, 1U);
  EXPECT_EQ(planOn({"a", "b", "b", "a", "b"}).perHost, 3U) << "the most";
}

TEST(JobPlan, MachinesOfOneHostGoDirectOnlyInPairs) {
  EXPECT_EQ(planOn({"a", "b", "c"}).limits.directMachines, 3U);
  EXPECT_EQ(planOn({"a", "a"}).limits.directMachines, 2U);
  EXPECT_EQ(planOn({"a", "b", "a"}).limits.directMachines, 0U);
  EXPECT_EQ(planOn(std::vector<std::string>(9, "a")).limits.directMachines, 0U);
  Roster said = rosterOn({"a", "b", "a"});
  said.settings.directBytes = 4096;
  EXPECT_EQ(JobPlan::make(said).value().limits.directMachines, 3U) << "the user says so";
}

}  // namespace
}  // namespace bps
