#include "topo/topology.h"

#include <algorithm>

#include "src/base/format.h"
#include "topo/rates.h"

namespace bps {

double Pcie::rate() const { return measured > 0 ? measured : pcieRate(gigatransfers, width); }

// Fills the members that are derived from nodes_ and links_.
void Topology::index() {
  uplinks_.assign(nodes_.size(), kNoLink);
  memories_.assign(nodes_.size(), kNoLink);
  for (NodeId id = 0; id < nodes_.size(); ++id) ofKind_[static_cast<size_t>(nodes_[id].kind)].push_back(id);
  for (LinkId id = 0; id < links_.size(); ++id) {
    if (links_[id].kind == LinkKind::kNvlink) nvlinks_.push_back(id);
    if (links_[id].kind == LinkKind::kMemory) memories_[links_[id].near] = id;
    if (links_[id].kind == LinkKind::kPcie || links_[id].kind == LinkKind::kInterconnect)
      uplinks_[links_[id].near] = id;
  }
  std::vector<bool> gpuBelow(nodes_.size()), nicBelow(nodes_.size());
  for (NodeId id = static_cast<NodeId>(nodes_.size()); id-- > 1;) {  // parents come before their children
    if (nodes_[id].kind == NodeKind::kGpu) gpuBelow[id] = true;
    if (nodes_[id].kind == NodeKind::kNic) nicBelow[id] = true;
    const NodeId parent = nodes_[id].parent;
    if (parent == kNoNode) continue;
    gpuBelow[parent] = gpuBelow[parent] || gpuBelow[id];
    nicBelow[parent] = nicBelow[parent] || nicBelow[id];
  }
  sharedWithNic_.assign(links_.size(), false);
  for (LinkId id = 0; id < links_.size(); ++id)
    sharedWithNic_[id] = links_[id].kind == LinkKind::kPcie && gpuBelow[links_[id].near] && nicBelow[links_[id].near];
}

std::vector<NodeId> Topology::children(NodeId id) const {
  std::vector<NodeId> found;
  for (NodeId child = id + 1; child < nodes_.size(); ++child)
    if (nodes_[child].parent == id) found.push_back(child);
  return found;
}

NodeId Topology::numaOf(NodeId id) const {
  while (id != kNoNode && nodes_[id].kind != NodeKind::kNuma) id = nodes_[id].parent;
  return id;
}

NodeId Topology::switchOf(NodeId gpu) const {
  const NodeId parent = nodes_[gpu].parent;
  return nodes_[parent].kind == NodeKind::kSwitch ? parent : gpu;
}

bool Topology::shareSwitch(NodeId one, NodeId other) const {
  const auto above = [&](NodeId id) { return nodes_[id].parent; };
  for (NodeId head = above(one); head != kNoNode && nodes_[head].kind == NodeKind::kSwitch; head = above(head))
    for (NodeId id = above(other); id != kNoNode && nodes_[id].kind == NodeKind::kSwitch; id = above(id))
      if (id == head) return true;
  return false;
}

bool Topology::besideNic(NodeId gpu) const {
  for (NodeId id = gpu; id != kNoNode && uplinks_[id] != kNoLink; id = nodes_[id].parent)
    if (sharedWithNic_[uplinks_[id]]) return true;
  return false;
}

SwitchCount Topology::countSwitches(const std::vector<NodeId>& gpus) const {
  SwitchCount count;
  std::vector<NodeId> seen;
  for (NodeId gpu : gpus) {
    if (nodes_[gpu].kind != NodeKind::kGpu) continue;
    const NodeId head = switchOf(gpu);
    if (std::find(seen.begin(), seen.end(), head) != seen.end()) continue;
    seen.push_back(head);
    ++(besideNic(gpu) ? count.withNic : count.withoutNic);
  }
  return count;
}

std::vector<Hop> Topology::route(NodeId from, NodeId to) const {
  const auto depth = [&](NodeId id) {
    size_t above = 0;
    for (; nodes_[id].parent != kNoNode; id = nodes_[id].parent) ++above;
    return above;
  };
  std::vector<Hop> up, down;
  if (memories_[from] != kNoLink) up.push_back({memories_[from], false});
  if (memories_[to] != kNoLink) down.push_back({memories_[to], true});
  NodeId a = from, b = to;
  for (size_t i = depth(from); i > depth(to); --i, a = nodes_[a].parent) up.push_back({uplinks_[a], true});
  for (size_t i = depth(to); i > depth(from); --i, b = nodes_[b].parent) down.push_back({uplinks_[b], false});
  for (; a != b; a = nodes_[a].parent, b = nodes_[b].parent) {
    up.push_back({uplinks_[a], true});
    down.push_back({uplinks_[b], false});
  }
  up.insert(up.end(), down.rbegin(), down.rend());
  return up;
}

std::vector<Hop> Topology::nvlinkRoute(NodeId from, NodeId to) const {
  Hop out, in;  // the links to and from the NVSwitch
  for (LinkId id : nvlinks_) {
    const MachineLink& link = links_[id];
    if (link.near == from && link.far == to) return {{id, true}};
    if (link.near == to && link.far == from) return {{id, false}};
    if (nodes_[link.far].kind != NodeKind::kNvSwitch) continue;
    if (link.near == from) out = {id, true};
    if (link.near == to) in = {id, false};
  }
  if (out.link == kNoLink || in.link == kNoLink) return {};
  return {out, in};
}

size_t Topology::indexOf(NodeId id) const {
  const std::vector<NodeId>& same = all(nodes_[id].kind);
  return static_cast<size_t>(std::find(same.begin(), same.end(), id) - same.begin());
}

std::string Topology::nameOf(NodeId id) const {
  const Node& node = nodes_[id];
  switch (node.kind) {
    case NodeKind::kMachine:
      return "CPU interconnect";
    case NodeKind::kNuma:
      return fmt::format("CPU {}", indexOf(id));
    case NodeKind::kSwitch:
      return fmt::format("switch P{}", indexOf(id));
    case NodeKind::kGpu:
      return fmt::format("GPU {}", indexOf(id));
    case NodeKind::kNic:
      return "NIC " + node.name;
    case NodeKind::kNvSwitch:
      break;
  }
  return "NVSwitch";
}

std::string Topology::nameOfLink(LinkId id) const {
  const MachineLink& link = links_[id];
  if (link.kind == LinkKind::kMemory) return nameOf(link.near) + " - memory";
  const char* nvlink = link.kind == LinkKind::kNvlink && nodes_[link.far].kind == NodeKind::kGpu ? " (NVLink)" : "";
  return nameOf(link.near) + " - " + nameOf(link.far) + nvlink;
}

}  // namespace bps
