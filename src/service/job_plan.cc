#include "src/service/job_plan.h"

#include <algorithm>

namespace bps {
namespace {

constexpr size_t kDepth = 4;
constexpr size_t kUnitBytes = 256U << 10;
// More machines than these do not send every small call to each other: their messages grow with the square.
constexpr size_t kDirectMachines = 8;

// Rates as given; those not given count as the fastest that was, so that a missing number never slows a machine down.
Rates ratesOf(const Roster& roster) {
  double fastest = 0;
  for (const Machine& machine : roster.machines) fastest = std::max(fastest, machine.bytesPerSecond);
  for (const ServerEntry& server : roster.servers) fastest = std::max(fastest, server.bytesPerSecond);
  if (fastest == 0) fastest = 1;
  Rates rates;
  for (const Machine& machine : roster.machines)
    rates.workers.push_back(machine.bytesPerSecond > 0 ? machine.bytesPerSecond : fastest);
  for (const ServerEntry& server : roster.servers)
    rates.servers.push_back(server.bytesPerSecond > 0 ? server.bytesPerSecond : fastest);
  return rates;
}

}  // namespace

Result<JobPlan> JobPlan::make(const Roster& roster) {
  JobPlan plan;
  const Rates rates = ratesOf(roster);
  plan.shares = BPS_TRY(solveShares(rates));
  plan.weights = plan.shares.weights;
  const bool network = roster.machines.size() > 1;
  const size_t machines = roster.machines.size();
  if (network && machines <= kDirectMachines && roster.settings.directBytes > 0) plan.limits.directMachines = machines;
  for (size_t endpoint = 0; endpoint < plan.weights.size(); ++endpoint)
    plan.owners.push_back(network && (plan.weights[endpoint] > 0 || endpoint < plan.limits.directMachines));
  plan.limits.unitBytes = std::min<size_t>(kUnitBytes, roster.settings.partitionBytes);
  plan.limits.maxChunkBytes = plan.limits.unitBytes;
  plan.limits.minChunkBytes = std::min(plan.limits.minChunkBytes, plan.limits.unitBytes);
  plan.limits.eagerBytes = std::min<size_t>(roster.settings.eagerBytes, plan.limits.maxChunkBytes);
  plan.limits.directBytes = std::min<size_t>(roster.settings.directBytes, plan.limits.maxChunkBytes);
  plan.depth = kDepth;
  return plan;
}

}  // namespace bps
