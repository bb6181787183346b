#include "src/plan/job_plan.h"

#include <algorithm>

#include "src/base/env.h"
#include "src/base/format.h"

namespace bps {
namespace {

// The shares of the present servers. If a machine or server has no rate, it gets the fastest given rate, so that a
// missing rate never reduces its share.
Result<Shares> sharesWith(const Roster& roster, const std::vector<ServerEntry>& servers) {
  double fastest = 0;
  for (const Machine& machine : roster.machines) fastest = std::max(fastest, machine.bytesPerSecond);
  for (const ServerEntry& server : servers)
    if (server.present) fastest = std::max(fastest, server.bytesPerSecond);
  if (fastest == 0) fastest = 1;
  const auto rateOf = [&](double given) { return given > 0 ? given : fastest; };
  Rates rates;
  for (const Machine& machine : roster.machines) rates.workers.push_back(rateOf(machine.bytesPerSecond));
  for (const ServerEntry& server : servers)
    if (server.present) rates.servers.push_back(rateOf(server.bytesPerSecond) * server.rateFactor);
  Shares shares = BPS_TRY(solveShares(rates));
  for (size_t server = 0; server < servers.size(); ++server) {
    if (servers[server].present) continue;
    const auto place = static_cast<std::ptrdiff_t>(server);
    shares.servers.insert(shares.servers.begin() + place, 0);
    shares.weights.insert(shares.weights.begin() + static_cast<std::ptrdiff_t>(roster.machines.size()) + place, 0);
  }
  return shares;
}

// A chunk on the exchange path occupies memory for the contributions of all machines, so chunks are
// smaller if there are more machines.
size_t exchangeChunkBytes(const Roster& roster, size_t maxChunkBytes) {
  const size_t machines = roster.machines.size();
  if (roster.settings.exchangeBytes == 0 || machines < 2 || roster.settings.parameters) return 0;
  return std::min(maxChunkBytes, std::max(constants::kMinExchangeChunk, 2 * maxChunkBytes / machines));
}

// On a BCube, every machine sums its cells of all blocks (bcube.h), and there are no owners.
Status planBcube(const Roster& roster, JobPlan& plan) {
  Bcube shape = BPS_TRY(Bcube::create(roster.settings.fabricN, roster.settings.fabricK));
  if (!roster.servers.empty())
    return {Code::kInvalidUsage, "BPS_FABRIC: summation servers are not possible on a BCube; unset BPS_SERVERS"};
  if (roster.settings.parameters)
    return {Code::kInvalidUsage, "BPS_FABRIC: asynchronous training is not possible on a BCube; unset BPS_FABRIC"};
  if (roster.machines.size() == 1) return {};
  if (roster.machines.size() != shape.machines())
    return failure(Code::kInvalidUsage, "BPS_FABRIC: {} has {} machines, the job has {}", shape.text(),
                   shape.machines(), roster.machines.size());
  plan.owners.assign(roster.endpoints(), false);
  plan.rails = 1;
  CutLimits& limits = plan.limits;
  limits.maxChunkBytes = limits.targetChunkBytes = std::min(limits.maxChunkBytes, constants::kMaxBcubeBlock);
  limits.exchangeBytes = limits.exchangeChunkBytes = limits.singleOwnerBytes = 0;
  plan.measureExchangePath = plan.measureSingleOwnerPath = false;
  plan.bcubeLimits.maxBlockBytes = limits.maxChunkBytes;
  plan.bcubeLimits.quantumBytes = limits.quantumBytes;
  plan.bcube = shape;
  return {};
}

}  // namespace

Result<JobPlan> JobPlan::make(const Roster& roster) {
  JobPlan plan;
  plan.shares = BPS_TRY(sharesWith(roster, roster.servers));
  plan.weights = plan.shares.weights;
  const bool network = roster.machines.size() > 1 || roster.settings.parameters;
  CutLimits& limits = plan.limits;
  // Every machine must be able to take over the share of a server that is lost, or in asynchronous training the parts
  // of any lost owner.
  for (size_t endpoint = 0; endpoint < roster.endpoints(); ++endpoint) {
    const bool sums = roster.isServer(endpoint)
                          ? roster.servers[endpoint - roster.machines.size()].present
                          : plan.weights[endpoint] > 0 || !roster.servers.empty() || roster.settings.parameters;
    plan.owners.push_back(network && sums);
  }
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
  plan.rails = network && !roster.settings.parameters ? roster.rails() : 1;
  if (roster.settings.fabricN != 0) BPS_TRY(planBcube(roster, plan));
  return plan;
}

Result<std::vector<uint64_t>> weightsWith(const Roster& roster, const std::vector<ServerEntry>& servers) {
  return BPS_TRY(sharesWith(roster, servers)).weights;
}

}  // namespace bps
