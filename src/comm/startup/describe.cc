#include "src/comm/startup/describe.h"

#include <atomic>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "cpu_reduce/dispatch.h"
#include "src/base/format.h"
#include "src/base/log.h"

namespace bps {
namespace {

using Json = nlohmann::ordered_json;

Json bytesJson(const std::array<uint64_t, kCopyKinds>& bytes) {
  Json kinds = Json::object();
  for (size_t kind = 0; kind < kCopyKinds; ++kind)
    if (bytes[kind] > 0) kinds[std::string(nameOf(static_cast<CopyKind>(kind)))] = bytes[kind];
  return kinds;
}

Json linksJson(const Topology& topology, const Traffic& traffic) {
  Json links = Json::array();
  for (LinkId id = 0; id < topology.links().size(); ++id)
    links.push_back({{"link", topology.nameOfLink(id)},
                     {"up", bytesJson(traffic.linkBytes(id).up)},
                     {"down", bytesJson(traffic.linkBytes(id).down)}});
  return links;
}

Json machineJson(const MachineTraffic& traffic, const Rails& rails, const RankEntry& self) {
  const MachinePlan& plan = traffic.plan();
  const LocalPlan& local = plan.program.plan();
  Json locations = Json::array(), roots = Json::array();
  for (const RankPlacement& place : local.placement.ranks) locations.push_back(plan.topology.nameOf(place.location));
  for (const size_t root : local.roots) roots.push_back(plan.topology.nameOf(local.placement.ranks[root].location));
  return {{"host", self.hostName},
          {"machine", self.machine},
          {"strategy", std::string(nameOf(local.strategy))},
          {"reason", plan.reason},
          {"roots", roots},
          {"ranks", locations},
          {"rails", rails.drivers()},
          {"calls", traffic.calls()},
          {"bytes", traffic.bytes()},
          {"links", linksJson(plan.topology, traffic.total())}};
}

}  // namespace

std::string describeTraffic(const Session& session) {
  if (session.traffic() == nullptr) return {};
  return machineJson(*session.traffic(), session.rails, session.self()).dump(1);
}

Status writeTraffic(const Session& session, Deadline deadline) {
  const RankEntry& self = session.self();
  if (session.env.topoCounters.empty() || self.localRank != 0) return {};
  while (session.local != nullptr && !session.local->allRanksFinished()) {
    if (session.failure.failed()) return session.failure.get();
    if (deadline.passed()) return {Code::kRemote, "BPS_TOPO_COUNTERS: a rank of this machine does not finish"};
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  static std::atomic<unsigned> files{0};  // number of files that this process has written
  std::string path = expandFileName(session.env.topoCounters);
  if (const size_t at = path.find("%m"); at != std::string::npos) path.replace(at, 2, fmt::format("{}", self.machine));
  if (const size_t at = path.find("%c"); at != std::string::npos) path.replace(at, 2, fmt::format("{}", files++));
  errno = 0;
  std::ofstream file(path, std::ios::trunc);
  file << describeTraffic(session) << "\n" << std::flush;
  if (!file.good()) return systemFailure("BPS_TOPO_COUNTERS: " + path + " cannot be written", errno);
  return {};
}

std::string describeCommunicator(const CommunicatorFacts& facts) {
  const Session& session = facts.progressThread.session();
  const Roster& roster = session.control.roster();
  const CutLimits& limits = facts.tuning.limits;
  Json json;
  json["ranks"] = roster.ranks.size();
  json["machines"] = roster.machines.size();
  json["servers"] = roster.presentServers();
  json["serverNames"] = Json::array();
  json["shares"] = {{"workers", session.plan.shares.workers}, {"servers", Json::array()}};
  for (size_t server = 0; server < roster.servers.size(); ++server) {
    if (!roster.servers[server].present) continue;
    json["serverNames"].push_back(roster.serverName(server));
    json["shares"]["servers"].push_back(session.plan.shares.servers[server]);
  }
  json["transport"] = facts.progressThread.transport();
  json["chunkBytes"] = limits.targetChunkBytes;
  json["exchangeBytes"] = limits.exchangeChunkBytes > 0 ? limits.exchangeBytes : 0;
  json["singleOwnerBytes"] = limits.singleOwnerBytes;
  json["startBytes"] = facts.probeBytes;
  const NetworkCosts& costs = facts.tuning.costs;
  if (costs.rate > 0)
    json["network"] = {{"bytesPerSecond", costs.rate},
                       {"singleOwnerSeconds", costs.singleOwner},
                       {"splitSeconds", costs.split},
                       {"exchangeSeconds", costs.exchange},
                       {"messageSeconds", costs.message}};
  if (costs.larger)
    json["network"]["larger"] = {{"bytes", costs.larger->bytes},
                                 {"singleOwnerSeconds", costs.larger->singleOwner},
                                 {"splitSeconds", costs.larger->split},
                                 {"exchangeSeconds", costs.larger->exchange}};
  if (session.cuda != nullptr) json["cudaDevice"] = session.cuda->ordinal();
  json["kernels"] = std::string(reduceTarget());
  if (session.traffic() != nullptr) json["machine"] = machineJson(*session.traffic(), session.rails, session.self());
  return json.dump();
}

void logStart(const CommunicatorFacts& facts) {
  const Session& session = facts.progressThread.session();
  const Roster& roster = session.control.roster();
  const uint32_t rank = session.control.rank();
  const std::string& transport = facts.progressThread.transport();
  logInfo(Subsystem::kInit,
          "rank {} of {}: {} machines, {} servers, transport {}, sums by {} kernels, chunks of at most {} bytes", rank,
          roster.ranks.size(), roster.machines.size(), roster.presentServers(),
          transport.empty() ? "none needed" : transport, reduceTarget(), facts.tuning.limits.targetChunkBytes);
  if (const NetworkCosts& costs = facts.tuning.costs; costs.rate > 0 && rank == 0) {
    const auto times = [](double singleOwner, double split, double exchange) {
      return fmt::format("takes {:.0f} us at a single owner, {:.0f} us split{}", singleOwner * 1e6, split * 1e6,
                         exchange > 0 ? fmt::format(", {:.0f} us by exchange", exchange * 1e6) : "");
    };
    std::string larger;
    if (const auto& call = costs.larger)
      larger = fmt::format(", one of {} bytes {}", call->bytes, times(call->singleOwner, call->split, call->exchange));
    logInfo(Subsystem::kInit, "network: {:.1f} MB/s; the smallest call {}{}; a message costs {:.1f} us",
            costs.rate / 1e6, times(costs.singleOwner, costs.split, costs.exchange), larger, costs.message * 1e6);
  }
  const std::string& obstacle = facts.progressThread.whyNoGpuDirect();
  if (session.cuda != nullptr && roster.machines.size() > 1)
    logInfo(Subsystem::kInit, "rank {}: CUDA device {}: GPUDirect RDMA is {}{}", rank, session.cuda->ordinal(),
            obstacle.empty() ? "used, by NIC " : "not used: ", obstacle.empty() ? session.nic.name : obstacle);
  if (session.local != nullptr && session.self().localRank == 0)
    logInfo(Subsystem::kTopo, "{} local ranks, {}", roster.machines[session.self().machine].ranks.size(),
            session.local->traffic().plan().describe());
}

}  // namespace bps
