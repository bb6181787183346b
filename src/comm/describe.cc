#include <atomic>
#include <cerrno>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/comm/communicator.h"

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

std::string Communicator::describeTraffic() const {
  if (traffic() == nullptr) return {};
  return machineJson(*traffic(), rails_, control_->roster().ranks[rank()]).dump(1);
}

Status Communicator::writeTraffic(Deadline deadline) const {
  const Roster& roster = control_->roster();
  const RankEntry& self = roster.ranks[membership_.rank];
  if (env_.topoCounters.empty() || self.localRank != 0) return {};
  while (local_ != nullptr && !local_->allRanksFinished()) {
    if (failure_.failed()) return failure_.get();
    if (deadline.passed()) return {Code::kRemote, "BPS_TOPO_COUNTERS: a rank of this machine does not finish"};
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  static std::atomic<unsigned> files{0};  // of this process, which may have many communicators
  std::string path = expandFileName(env_.topoCounters);
  if (const size_t at = path.find("%m"); at != std::string::npos) path.replace(at, 2, fmt::format("{}", self.machine));
  if (const size_t at = path.find("%c"); at != std::string::npos) path.replace(at, 2, fmt::format("{}", files++));
  errno = 0;
  std::ofstream file(path, std::ios::trunc);
  file << describeTraffic() << "\n" << std::flush;
  if (!file.good()) return systemFailure("BPS_TOPO_COUNTERS: " + path + " cannot be written", errno);
  return {};
}

std::string Communicator::describe() const {
  const Roster& roster = control_->roster();
  Json facts;
  facts["ranks"] = nRanks();
  facts["machines"] = roster.machines.size();
  facts["servers"] = roster.servers.size();
  facts["serverNames"] = Json::array();
  for (const ServerEntry& server : roster.servers) facts["serverNames"].push_back(server.name);
  facts["transport"] = progressThread_->transport();
  facts["shares"] = {{"workers", plan_.shares.workers}, {"servers", plan_.shares.servers}};
  facts["chunkBytes"] = tuning_.limits.targetChunkBytes;
  facts["directBytes"] = tuning_.limits.exchangeMachines > 0 ? tuning_.limits.exchangeBytes : 0;
  facts["eagerBytes"] = tuning_.limits.singleOwnerBytes;
  facts["window"] = tuning_.window;
  facts["startBytes"] = probeBytes_;
  if (device()) facts["cudaDevice"] = *device();
  facts["kernels"] = std::string(reduceTarget());
  if (traffic() != nullptr) facts["machine"] = machineJson(*traffic(), rails_, roster.ranks[rank()]);
  return facts.dump();
}

}  // namespace bps
