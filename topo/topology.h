// Topology: the hardware of one machine. TopologyBuilder (topo/topology_builder.h) builds it. A
// Topology is immutable, so any thread may read it. Every rank of the machine builds an equal
// Topology from the same file or from the kernel's reports.
//
// A Topology is a tree with one link from every node to its parent, plus NVLinks:
//
//   machine - NUMA node - PCIe switch (may nest) - GPU or NIC
//
// The link of a NUMA node to the machine is the CPU interconnect. A NUMA node also has a memory
// link. A bridge that leads to a single device is part of that device's link. A PCIe switch has two
// or more GPUs or NICs below it. All NVSwitches of a machine count as one NVSwitch.
//
// Only route() and nvlinkRoute() know which links a copy takes. The planner's predictions and the
// data path's counters both use these two functions.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "topo/cpu_set.h"

namespace bps {

using NodeId = uint32_t;
using LinkId = uint32_t;
constexpr NodeId kRoot = 0;  // the machine
constexpr NodeId kNoNode = ~NodeId{0};
constexpr LinkId kNoLink = ~LinkId{0};
constexpr double kNoLinkMbps = -1;

enum class NodeKind { kMachine, kNuma, kSwitch, kGpu, kNic, kNvSwitch };

struct Cpu {  // of a NUMA node
  int numaId = -1;
  CpuSet cpus;
  std::string arch, vendor;  // "x86_64", "GenuineIntel"
  int family = 0, model = 0;
  double memoryRate = 0;        // bytes per second of reads and writes together; 0: unknown
  double interconnectRate = 0;  // bytes per second to the other NUMA nodes, each way; 0: unknown
  double peerRate = 0;          // limit of GPU-to-GPU copies on the interconnect; 0: the CPU model's default
  bool operator==(const Cpu&) const = default;
};

struct Pcie {  // the link of a switch, GPU or NIC towards the CPU
  std::string busId = {};
  double gigatransfers = 0;  // 0: unknown
  int width = 0;
  double measured = 0;  // bytes per second each way, instead of the rate from speed and width; 0: not measured
  bool operator==(const Pcie&) const = default;
  double rate() const;
};

struct Node {
  NodeKind kind = NodeKind::kMachine;
  NodeId parent = kNoNode;
  std::string name = {};  // network device of a NIC; empty for other nodes
  Pcie pcie = {};         // link of a switch, GPU or NIC
  Cpu cpu = {};           // CPUs and rates of a NUMA node
  int dev = -1;           // NVML's index of a GPU
  int sm = 0;             // compute capability of a GPU, 90 for 9.0
  double mbps = 0;        // line rate of a NIC in Mbit/s; 0: unknown; kNoLinkMbps: build() drops the NIC
  bool operator==(const Node&) const = default;
};

enum class LinkKind { kPcie, kInterconnect, kNvlink, kMemory };

// Up is the direction from `near` to `far`. On a memory link, writes go up and reads go down, and
// both share the link's rate.
struct MachineLink {
  LinkKind kind = LinkKind::kPcie;
  NodeId near = kNoNode, far = kNoNode;
  double rate = 0;      // bytes per second each way; 0: unknown, and never the limit
  double peerRate = 0;  // limit of copies between GPUs, bytes per second each way; 0: only `rate` limits them
  int count = 0;        // number of NVLinks that this link combines
  bool operator==(const MachineLink&) const = default;
};

struct Hop {
  LinkId link = kNoLink;
  bool up = true;
  bool operator==(const Hop&) const = default;
};

struct SwitchCount {
  int withNic = 0;     // S_n: switches with GPUs that share a link to the CPU with a NIC
  int withoutNic = 0;  // S_g: the other switches with GPUs; a GPU without a switch counts as a switch
};

class Topology {
 public:
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<MachineLink>& links() const { return links_; }
  const Node& node(NodeId id) const { return nodes_[id]; }
  const MachineLink& link(LinkId id) const { return links_[id]; }
  const std::vector<NodeId>& all(NodeKind kind) const { return ofKind_[static_cast<size_t>(kind)]; }
  std::vector<NodeId> children(NodeId id) const;
  LinkId uplink(NodeId id) const { return uplinks_[id]; }

  NodeId numaOf(NodeId id) const;     // the NUMA node of a device; a NUMA node gives itself
  NodeId switchOf(NodeId gpu) const;  // the switch directly above the GPU; the GPU itself if there is none
  bool sharedWithNic(LinkId link) const { return sharedWithNic_[link]; }  // a PCIe link above both a NIC and a GPU
  bool shareSwitch(NodeId one, NodeId other) const;                       // one PCIe switch is above both nodes
  bool besideNic(NodeId gpu) const;  // true if the GPU shares a link to the CPU with a NIC
  SwitchCount countSwitches(const std::vector<NodeId>& gpus) const;

  // Returns the links of the tree from one device or NUMA node to another. If `from` is a NUMA
  // node, the route starts with a read of its memory. If `to` is a NUMA node, the route ends with a
  // write to its memory.
  std::vector<Hop> route(NodeId from, NodeId to) const;
  // Returns the NVLinks from one GPU to another, directly or through the NVSwitch. Empty if no
  // NVLinks connect the two GPUs.
  std::vector<Hop> nvlinkRoute(NodeId from, NodeId to) const;

  // nameOf() and nameOfLink() return the names in text and JSON output. Nodes are named "GPU 2",
  // "NIC mlx5_0", "switch P1" or "CPU 0"; a link is named "GPU 2 - switch P1".
  std::string nameOf(NodeId id) const;
  std::string nameOfLink(LinkId id) const;
  size_t indexOf(NodeId id) const;  // the index among the nodes of the same kind

  bool operator==(const Topology& other) const { return nodes_ == other.nodes_ && links_ == other.links_; }

 private:
  friend class TopologyBuilder;
  void index();

  std::vector<Node> nodes_;
  std::vector<MachineLink> links_;
  std::vector<LinkId> uplinks_;   // by node
  std::vector<LinkId> memories_;  // by node
  std::vector<LinkId> nvlinks_;
  std::vector<bool> sharedWithNic_;  // by link
  std::vector<NodeId> ofKind_[6];
};

}  // namespace bps
