#include "tools/bps_topo/machine_json.h"

#include "topo/plan/reason.h"

namespace bps {
namespace {

using Json = nlohmann::ordered_json;

const char* kindName(NodeKind kind) {
  static constexpr const char* kNames[] = {"machine", "cpu", "switch", "gpu", "nic", "nvswitch"};
  return kNames[static_cast<size_t>(kind)];
}

Json bytesJson(const std::array<uint64_t, kCopyKinds>& bytes) {
  Json json = Json::object();
  for (size_t kind = 0; kind < kCopyKinds; ++kind) json[std::string(nameOf(static_cast<CopyKind>(kind)))] = bytes[kind];
  return json;
}

Json ranksJson(const MachineReport& report) {
  const LocalPlan& plan = report.decision.best().plan;
  Json ranks = Json::array();
  for (size_t rank = 0; rank < plan.placement.ranks.size(); ++rank) {
    const RankPlacement& place = plan.placement.ranks[rank];
    Json nics = Json::array();
    for (const NicAssignment& assignment : plan.assignments)
      if (assignment.rank == rank && assignment.nic != kNoNode)
        nics.push_back(report.topology.node(assignment.nic).name);
    ranks.push_back({{"buffer", report.topology.nameOf(place.location)},
                     {"group", plan.placement.groupOf[rank]},
                     {"cpus", place.cpus.list()},
                     {"numa", report.topology.node(place.numa).cpu.numaId},
                     {"nics", nics}});
  }
  return ranks;
}

Json trafficJson(const MachineReport& report) {
  Json links = Json::array();
  for (LinkId id = 0; id < report.topology.links().size(); ++id) {
    const LinkBytes& bytes = report.decision.best().traffic.linkBytes(id);
    links.push_back({{"link", report.topology.nameOfLink(id)},
                     {"bytes_per_second", report.topology.link(id).rate},
                     {"up", bytesJson(bytes.up)},
                     {"down", bytesJson(bytes.down)}});
  }
  return links;
}

}  // namespace

Json planJson(const MachineReport& report) {
  const Decision& decision = report.decision;
  Json candidates = Json::array(), roots = Json::array();
  for (const Candidate& made : decision.candidates)
    candidates.push_back({{"strategy", nameOf(made.plan.strategy)},
                          {"seconds", made.seconds},
                          {"slowest", bottleneckOf(report.topology, made)},
                          {"crosses_switches", made.copiesCrossSwitches}});
  const LocalPlan& plan = decision.best().plan;
  for (size_t root : plan.roots) roots.push_back(report.topology.indexOf(plan.placement.ranks[root].location));
  return {{"strategy", nameOf(plan.strategy)},
          {"s_n", decision.switches.withNic},
          {"s_g", decision.switches.withoutNic},
          {"roots", roots},
          {"reason", decision.reason},
          {"bytes", report.job.bytes},
          {"candidates", candidates},
          {"mixture", {{"x", report.mixture.x}, {"seconds", report.mixture.seconds}}},
          {"ranks", ranksJson(report)},
          {"traffic", trafficJson(report)}};
}

Json showJson(const MachineReport& report) {
  const Topology& topology = report.topology;
  Json nodes = Json::array(), links = Json::array();
  for (NodeId id = 1; id < topology.nodes().size(); ++id) {
    const Node& node = topology.node(id);
    Json json = {{"name", topology.nameOf(id)}, {"kind", kindName(node.kind)}};
    if (node.parent != kNoNode) json["parent"] = topology.nameOf(node.parent);
    if (!node.pcie.busId.empty()) json["bus_id"] = node.pcie.busId;
    if (node.kind == NodeKind::kNuma) json["cpus"] = node.cpu.cpus.list();
    if (node.kind == NodeKind::kNic) json["gbps"] = node.mbps / 1000;
    nodes.push_back(json);
  }
  for (LinkId id = 0; id < topology.links().size(); ++id)
    links.push_back({{"name", topology.nameOfLink(id)},
                     {"bytes_per_second", topology.link(id).rate},
                     {"shared_with_nic", topology.sharedWithNic(id)}});
  return {{"source", report.source}, {"nodes", nodes}, {"links", links}};
}

}  // namespace bps
