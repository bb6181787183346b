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

// A chunk on the exchange path occupies memory for the contributions of all machines, so chunks are
// smaller if there are more machines.
size_t exchangeChunkBytes(const Roster& roster, size_t maxChunkBytes) {
  const size_t machines = roster.machines.size();
  if (roster.settings.exchangeBytes == 0 || machines < 2) return 0;
  return std::min(maxChunkBytes, std::max(constants::kMinExchangeChunk, 2 * maxChunkBytes / machines));
}

}  // namespace

Result<JobPlan> JobPlan::make(const Roster& roster) {
  JobPlan plan;
  plan.shares = BPS_TRY(solveShares(ratesOf(roster)));
  plan.weights = plan.shares.weights;
  const bool network = roster.machines.size() > 1;
  CutLimits& limits = plan.limits;
  // Every endpoint must be able to take over the share of a server that is lost.
  for (const uint64_t weight : plan.weights) plan.owners.push_back(network && (weight > 0 || !roster.servers.empty()));
  const size_t roundShare = std::max(constants::kMinChunkBytes, constants::kMaxRoundBytes / roster.machines.size());
  limits.maxChunkBytes = std::min({constants::kMaxChunkBytes, roundShare, size_t{roster.settings.partitionBytes}});
  limits.targetChunkBytes = limits.maxChunkBytes;
  limits.exchangeChunkBytes = exchangeChunkBytes(roster, limits.maxChunkBytes);
  plan.measureExchangePath = roster.settings.exchangeBytes == Bytes::kMeasured;
  plan.measureSingleOwnerPath = roster.settings.singleOwnerBytes == Bytes::kMeasured;
  limits.exchangeBytes = plan.measureExchangePath ? 0 : roster.settings.exchangeBytes;
  limits.singleOwnerBytes =
      plan.measureSingleOwnerPath ? 0 : std::min<size_t>(roster.settings.singleOwnerBytes, limits.maxChunkBytes);
  if (roster.ranks.size() > roster.machines.size()) limits.quantumBytes = constants::kLocalQuantumBytes;
  plan.rails = network ? roster.rails() : 1;
  return plan;
}

Result<std::vector<uint64_t>> weightsWithout(const Roster& roster, const std::vector<bool>& lostServers) {
  Rates rates = ratesOf(roster);
  std::vector<double> left;
  for (size_t server = 0; server < rates.servers.size(); ++server)
    if (!lostServers[server]) left.push_back(rates.servers[server]);
  rates.servers = left;
  std::vector<uint64_t> weights = BPS_TRY(solveShares(rates)).weights;
  for (size_t server = 0; server < lostServers.size(); ++server)
    if (lostServers[server])
      weights.insert(weights.begin() + static_cast<std::ptrdiff_t>(roster.machines.size() + server), 0);
  return weights;
}

}  // namespace bps
