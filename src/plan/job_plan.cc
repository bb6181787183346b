#include "src/plan/job_plan.h"

#include <algorithm>
#include <map>
#include <string>

#include "src/base/env.h"

namespace bps {
namespace {

// What is under way on one lane at most, where networks carry it, and where one host's processors do: to each message
// goes more of their time then, and what is under way should stay in their caches (docs/transport.md).
struct Pipeline {
  size_t depth, targetChunkBytes;
};
constexpr Pipeline kNetworkPipeline{4, 256U << 10}, kHostPipeline{2, 512U << 10};
// 2, 3, 4, 6, 8, 12, 16 or 24 ranks of a machine divide it into whole cache lines, so that all have the same to do.
constexpr size_t kSharedQuantumBytes = 48 * 64;
constexpr uint64_t kUntunedExchangePathBytes = 4U << 10, kUntunedSingleOwnerBytes = 16U << 10;
// More machines than these do not send every small call to each other: their messages grow with the square.
constexpr size_t kMaxExchangePathMachines = 8;

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

size_t maxMachinesPerHost(const Roster& roster) {
  std::map<std::string, size_t> machines;
  size_t most = 1;
  for (const Machine& machine : roster.machines)
    most = std::max(most, ++machines[roster.ranks[machine.ranks.front()].hostName]);
  return most;
}

// Direct exchange saves a hop and costs messages: it pays where every machine has processors of its own for them.
// Without that only two do it, whose messages are the fewest in any case, unless the user says how much should go
// direct.
bool mayUseExchangePath(const Roster& roster) {
  if (roster.settings.exchangeBytes == 0 || roster.machines.size() < 2) return false;
  if (roster.settings.exchangeBytes != Bytes::kMeasured) return true;
  return roster.machines.size() <= (maxMachinesPerHost(roster) > 1 ? 2 : kMaxExchangePathMachines);
}

}  // namespace

Result<JobPlan> JobPlan::make(const Roster& roster) {
  JobPlan plan;
  const Rates rates = ratesOf(roster);
  plan.shares = BPS_TRY(solveShares(rates));
  plan.weights = plan.shares.weights;
  const bool network = roster.machines.size() > 1;
  if (mayUseExchangePath(roster)) plan.limits.exchangeMachines = roster.machines.size();
  for (size_t endpoint = 0; endpoint < plan.weights.size(); ++endpoint)
    plan.owners.push_back(network && (plan.weights[endpoint] > 0 || endpoint < plan.limits.exchangeMachines));
  plan.machinesPerHost = maxMachinesPerHost(roster);
  plan.hasMultiRankMachine = roster.ranks.size() > roster.machines.size();
  const bool hostOnly = network && plan.machinesPerHost == roster.machines.size() && roster.servers.empty();
  const Pipeline& pipeline = hostOnly && !plan.hasMultiRankMachine ? kHostPipeline : kNetworkPipeline;
  plan.depth = pipeline.depth;
  plan.limits.targetChunkBytes = std::min<size_t>(pipeline.targetChunkBytes, roster.settings.partitionBytes);
  plan.limits.maxChunkBytes = plan.limits.targetChunkBytes;
  plan.limits.minChunkBytes = std::min(plan.limits.minChunkBytes, plan.limits.targetChunkBytes);
  plan.measureExchangePath = roster.settings.exchangeBytes == Bytes::kMeasured;
  plan.measureSingleOwnerPath = roster.settings.singleOwnerBytes == Bytes::kMeasured;
  const auto bounded = [&](uint64_t bytes) { return std::min<size_t>(bytes, plan.limits.maxChunkBytes); };
  plan.limits.exchangeBytes = plan.measureExchangePath ? kUntunedExchangePathBytes : roster.settings.exchangeBytes;
  plan.limits.singleOwnerBytes =
      bounded(plan.measureSingleOwnerPath ? kUntunedSingleOwnerBytes : roster.settings.singleOwnerBytes);
  if (plan.hasMultiRankMachine) plan.limits.quantumBytes = kSharedQuantumBytes;
  plan.rails = network ? roster.rails() : 1;
  return plan;
}

}  // namespace bps
