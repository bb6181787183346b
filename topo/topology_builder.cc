#include "topo/topology_builder.h"

#include <algorithm>
#include <map>

#include "src/base/format.h"
#include "topo/rates.h"

namespace bps {

Result<NodeId> TopologyBuilder::add(Node node) {
  if (nodes_.size() >= kMaxNodes) return failure(Code::kInvalidArgument, "more than {} devices", kMaxNodes);
  const NodeKind parent = nodes_[node.parent].kind;
  const bool numa = node.kind == NodeKind::kNuma;
  if (numa != (parent == NodeKind::kMachine))
    return Status(Code::kInvalidArgument, "a PCI device is outside of every CPU");
  if (!numa && parent != NodeKind::kNuma && parent != NodeKind::kSwitch)
    return Status(Code::kInvalidArgument, "a PCI device is inside a GPU or NIC");
  size_t depth = 0;
  for (NodeId id = node.parent; id != kRoot; id = nodes_[id].parent) ++depth;
  if (depth > kMaxDepth) return failure(Code::kInvalidArgument, "more than {} bridges in a row", kMaxDepth);
  if (node.kind == NodeKind::kGpu) BPS_TRY(checkGpu(node));
  nodes_.push_back(std::move(node));
  return static_cast<NodeId>(nodes_.size() - 1);
}

Status TopologyBuilder::checkGpu(const Node& gpu) const {
  size_t gpus = 1;
  for (const Node& node : nodes_) {
    if (node.kind != NodeKind::kGpu) continue;
    if (!gpu.pcie.busId.empty() && node.pcie.busId == gpu.pcie.busId)
      return failure(Code::kInvalidArgument, "another GPU has bus id {} too", gpu.pcie.busId);
    if (++gpus > kMaxGpus) return failure(Code::kInvalidArgument, "more than {} GPUs", kMaxGpus);
  }
  return {};
}

Status TopologyBuilder::check() const {
  const bool any =
      std::any_of(nodes_.begin(), nodes_.end(), [](const Node& node) { return node.kind == NodeKind::kNuma; });
  return any ? Status() : Status(Code::kInvalidArgument, "the topology has no CPU");
}

bool TopologyBuilder::setMeasuredNvlinkRate(NodeId gpu, const std::string& other, double rate) {
  const auto joins = [&](const NvlinkSpec& nvlink) {
    return nvlink.gpu == gpu && (nvlink.toSwitch || nvlink.target == other);
  };
  const auto count = static_cast<double>(std::count_if(nvlinks_.begin(), nvlinks_.end(), joins));
  for (NvlinkSpec& nvlink : nvlinks_)
    if (joins(nvlink)) nvlink.measured = rate / count;
  return count > 0;
}

// Copies the nodes into a topology, parents first. Drops bridges without devices and NICs without a link. Folds a
// bridge with one child into that child's link.
struct TopologyBuilder::BridgeFolding {
  const std::vector<Node>& from;
  Topology& to;
  std::vector<std::vector<NodeId>> children = std::vector<std::vector<NodeId>>(from.size());
  std::vector<NodeId> newIds = std::vector<NodeId>(from.size(), kNoNode);

  bool isSwitch(NodeId id) const { return from[id].kind == NodeKind::kSwitch; }

  void findChildren() {
    // Go from the last node to the first, so that a bridge's children are known before the bridge
    // is kept or dropped.
    for (NodeId id = static_cast<NodeId>(from.size()); id-- > 1;)
      if (isSwitch(id) ? !children[id].empty() : from[id].mbps != kNoLinkMbps) children[from[id].parent].push_back(id);
    for (std::vector<NodeId>& list : children) std::reverse(list.begin(), list.end());
  }

  void copy(NodeId id, NodeId parent, const Pcie* above) {
    Node node = from[id];
    node.parent = parent;
    if (above != nullptr && above->rate() < node.pcie.rate()) {
      node.pcie.gigatransfers = above->gigatransfers;
      node.pcie.width = above->width;
      node.pcie.measured = above->measured;
    }
    if (isSwitch(id) && children[id].size() == 1) {
      copy(children[id].front(), parent, &node.pcie);
      return;
    }
    const auto made = static_cast<NodeId>(to.nodes().size());
    newIds[id] = made;
    add(std::move(node));
    for (NodeId child : children[id]) copy(child, made, nullptr);
  }

  void add(Node node);
};

void TopologyBuilder::BridgeFolding::add(Node node) {
  const auto id = static_cast<NodeId>(to.nodes_.size());
  const NodeId parent = node.parent;
  if (node.kind == NodeKind::kNuma) {
    const Cpu& cpu = node.cpu;
    const double peer = cpu.peerRate > 0 ? cpu.peerRate : peerRateBetweenSockets(cpu);
    to.links_.push_back({LinkKind::kInterconnect, id, parent, cpu.interconnectRate, peer});
    to.links_.push_back({LinkKind::kMemory, id, id, cpu.memoryRate, 0});
  } else if (node.kind != NodeKind::kMachine) {
    to.links_.push_back({LinkKind::kPcie, id, parent, node.pcie.rate(), 0});
  }
  to.nodes_.push_back(std::move(node));
}

// Both GPUs of a direct NVLink may list the link, but it is added only once. All NVSwitches become
// one node.
void TopologyBuilder::addNvlinks(Topology& topology, const std::vector<NodeId>& newIds) const {
  std::map<std::pair<NodeId, NodeId>, MachineLink> found;
  NodeId nvSwitch = kNoNode;
  for (const NvlinkSpec& nvlink : nvlinks_) {
    const NodeId gpu = newIds[nvlink.gpu];
    const double rate = nvlink.measured > 0 ? nvlink.measured : nvlink.count * nvlinkRate(topology.nodes_[gpu].sm);
    if (nvlink.toSwitch) {
      if (nvSwitch == kNoNode) {
        nvSwitch = static_cast<NodeId>(topology.nodes_.size());
        topology.nodes_.push_back({});
        topology.nodes_.back().kind = NodeKind::kNvSwitch;
      }
      MachineLink& link = found[{gpu, nvSwitch}];
      link = {LinkKind::kNvlink, gpu, nvSwitch, link.rate + rate, 0, link.count + nvlink.count};
      continue;
    }
    for (NodeId other = 0; other < topology.nodes_.size(); ++other) {
      const Node& node = topology.nodes_[other];
      if (node.kind != NodeKind::kGpu || node.pcie.busId != nvlink.target || other == gpu) continue;
      const auto ends = std::minmax(gpu, other);
      found[ends] = {LinkKind::kNvlink, ends.first, ends.second, rate, 0, nvlink.count};
    }
  }
  for (const auto& [ends, link] : found) topology.links_.push_back(link);
}

Result<Topology> TopologyBuilder::build() const {
  BPS_TRY(check());
  Topology topology;
  BridgeFolding folding{nodes_, topology};
  folding.findChildren();
  folding.copy(kRoot, kNoNode, nullptr);
  addNvlinks(topology, folding.newIds);
  topology.index();
  return topology;
}

PciKind pciKindOf(unsigned classCode, unsigned vendor) {
  constexpr unsigned kNvidia = 0x10de, kAmd = 0x1002;
  switch (classCode >> 8) {
    case 0x0604:
    case 0x0801:
      return PciKind::kBridge;
    case 0x0680:
      return classCode == 0x068001 ? PciKind::kOther : PciKind::kNvSwitch;
    case 0x0302:
    case 0x0380:
      return PciKind::kGpu;
    case 0x0300:  // a display controller; it may belong to the board's management controller
      return vendor == kNvidia || vendor == kAmd || vendor == 0 ? PciKind::kGpu : PciKind::kOther;
    case 0x1200:
      return vendor == kAmd ? PciKind::kGpu : PciKind::kOther;
    default:
      return classCode >> 16 == 0x02 ? PciKind::kNic : PciKind::kOther;
  }
}

}  // namespace bps
