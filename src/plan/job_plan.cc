#include "src/plan/job_plan.h"

#include <algorithm>

#include "src/base/env.h"

namespace bps {
namespace {

// If a machine or server has no rate, it gets the fastest given rate, so that a missing rate never
// reduces its share.
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

// With many machines, the exchange path costs too many messages, so it is then used only if the
// user sets BPS_DIRECT_BYTES.
bool mayUseExchangePath(const Roster& roster) {
  if (roster.settings.exchangeBytes == 0 || roster.machines.size() < 2) return false;
  return roster.settings.exchangeBytes != Bytes::kMeasured || roster.machines.size() <= constants::kMaxExchangeMachines;
}

}  // namespace

Result<JobPlan> JobPlan::make(const Roster& roster) {
  JobPlan plan;
  plan.shares = BPS_TRY(solveShares(ratesOf(roster)));
  plan.weights = plan.shares.weights;
  const bool network = roster.machines.size() > 1;
  CutLimits& limits = plan.limits;
  if (mayUseExchangePath(roster)) limits.exchangeMachines = roster.machines.size();
  for (size_t endpoint = 0; endpoint < plan.weights.size(); ++endpoint)
    plan.owners.push_back(network && (plan.weights[endpoint] > 0 || endpoint < limits.exchangeMachines));
  const size_t roundShare = std::max(constants::kMinChunkBytes, constants::kMaxRoundBytes / roster.machines.size());
  limits.maxChunkBytes = std::min({constants::kMaxChunkBytes, roundShare, size_t{roster.settings.partitionBytes}});
  limits.targetChunkBytes = limits.maxChunkBytes;
  plan.measureExchangePath = roster.settings.exchangeBytes == Bytes::kMeasured;
  plan.measureSingleOwnerPath = roster.settings.singleOwnerBytes == Bytes::kMeasured;
  limits.exchangeBytes = plan.measureExchangePath ? 0 : roster.settings.exchangeBytes;
  limits.singleOwnerBytes =
      plan.measureSingleOwnerPath ? 0 : std::min<size_t>(roster.settings.singleOwnerBytes, limits.maxChunkBytes);
  if (roster.ranks.size() > roster.machines.size()) limits.quantumBytes = constants::kLocalQuantumBytes;
  plan.rails = network ? roster.rails() : 1;
  return plan;
}

}  // namespace bps
