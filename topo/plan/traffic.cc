#include "topo/plan/traffic.h"

#include <numeric>

namespace bps {

std::string_view nameOf(CopyKind kind) {
  switch (kind) {
    case CopyKind::kPeer:
      return "peer";
    case CopyKind::kStaging:
      return "staging";
    case CopyKind::kSum:
      return "sum";
    case CopyKind::kNic:
      break;
  }
  return "nic";
}

std::vector<Hop> hopsOf(const Topology& topology, const Copy& copy) {
  if (copy.kind == CopyKind::kPeer) {
    std::vector<Hop> hops = topology.nvlinkRoute(copy.from, copy.to);
    if (!hops.empty()) return hops;
  }
  return topology.route(copy.from, copy.to);
}

uint64_t LinkBytes::total(bool upward) const {
  const auto& kinds = upward ? up : down;
  return std::accumulate(kinds.begin(), kinds.end(), uint64_t{0});
}

void Traffic::addCopy(const Topology& topology, const Copy& copy) {
  for (const Hop& hop : hopsOf(topology, copy)) {
    if (!copy.stored && hop.up && topology.link(hop.link).kind == LinkKind::kMemory) continue;
    LinkBytes& link = links_[hop.link];
    (hop.up ? link.up : link.down)[static_cast<size_t>(copy.kind)] += copy.bytes;
  }
}

std::vector<double> linkSeconds(const Topology& topology, const Traffic& traffic) {
  const auto seconds = [](uint64_t bytes, double rate) { return rate > 0 ? static_cast<double>(bytes) / rate : 0; };
  std::vector<double> times;
  for (LinkId id = 0; id < topology.links().size(); ++id) {
    const MachineLink& link = topology.link(id);
    const LinkBytes& bytes = traffic.linkBytes(id);
    const uint64_t up = bytes.total(true), down = bytes.total(false);
    const bool memory = link.kind == LinkKind::kMemory;
    times.push_back(seconds(memory ? up + down : up, link.rate));
    times.push_back(seconds(memory ? 0 : down, link.rate));
    times.push_back(seconds(bytes.up[static_cast<size_t>(CopyKind::kPeer)], link.peerRate));
    times.push_back(seconds(bytes.down[static_cast<size_t>(CopyKind::kPeer)], link.peerRate));
  }
  return times;
}

}  // namespace bps
