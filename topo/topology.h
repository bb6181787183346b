// Topology: the hardware of one machine. topo/topology_builder.h builds it; it is immutable afterwards, so any thread
// may read it. Every rank of the machine builds an equal one from the same file or from what the kernel reports.
//
// It is a tree with one link from every node to its parent, plus NVLinks:
//
//   machine - NUMA node - PCIe switch (may nest) - GPU or NIC
//
// The link of a NUMA node to the machine is the CPU interconnect. A NUMA node also has a memory link. A bridge that
// leads to a single device is part of that device's link. A PCIe switch has two or more GPUs or NICs below it. All
// NVSwitches of a machine count as one.
//
// Only route() and nvlinkRoute() know which links a copy takes. The planner's predictions and the data path's counters
// both use them.
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
  double memoryRate = 0;        // bytes per second, read and written together; 0: unknown
  double interconnectRate = 0;  // to the other NUMA nodes, each way; 0: unknown
  double peerRate = 0;          // limit of copies between GPUs on that link; 0: the default of the CPU model
  bool operator==(const Cpu&) const = default;
};

struct Pcie {  // the link of a switch, GPU or NIC towards the CPU
  std::string busId = {};
  double gigatransfers = 0;  // 0: unknown
  int width = 0;
  double measured = 0;  // bytes per second each way, replaces the rate from speed and width; 0: not measured
  bool operator==(const Pcie&) const = default;
  double rate() const;
};

struct Node {
  NodeKind kind = NodeKind::kMachine;
  NodeId parent = kNoNode;
  std::string name = {};  // of a NIC: its network device; empty for other nodes
  Pcie pcie = {};         // of a switch, GPU, NIC
  Cpu cpu = {};           // of a NUMA node
  int dev = -1;           // of a GPU: NVML's index
  int sm = 0;             // of a GPU: compute capability, 90 for 9.0
  double mbps = 0;        // of a NIC: line rate in Mbit/s; 0: unknown; kNoLinkMbps: no link, build() leaves it out
  bool operator==(const Node&) const = default;
};

enum class LinkKind { kPcie, kInterconnect, kNvlink, kMemory };

// Up is the direction from near to far. On a memory link up is writes and down is reads; both share its rate.
struct MachineLink {
  LinkKind kind = LinkKind::kPcie;
  NodeId near = kNoNode, far = kNoNode;
  double rate = 0;      // bytes per second each way; 0: unknown, it never limits
  double peerRate = 0;  // limit of copies between GPUs, bytes per second each way; 0: only `rate` limits them
  int count = 0;        // of an NVLink: the number of links combined in it
  bool operator==(const MachineLink&) const = default;
};

struct Hop {
  LinkId link = kNoLink;
  bool up = true;
  bool operator==(const Hop&) const = default;
};

struct SwitchCount {
  int withNic = 0;     // S_n: switches with GPUs that share a link to the CPU with a NIC
  int withoutNic = 0;  // S_g: switches with GPUs only. A GPU without a switch counts as a switch with one GPU
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

  NodeId numaOf(NodeId id) const;     // of a device, or of a NUMA node itself
  NodeId switchOf(NodeId gpu) const;  // the switch directly above the GPU; the GPU itself if there is none
  bool sharedWithNic(LinkId link) const { return sharedWithNic_[link]; }  // a PCIe link above both a NIC and a GPU
  bool shareSwitch(NodeId one, NodeId other) const;                       // a PCIe switch is above both
  bool besideNic(NodeId gpu) const;  // the GPU shares some link to the CPU with a NIC
  SwitchCount countSwitches(const std::vector<NodeId>& gpus) const;

  // The links from one device or NUMA node to another through the tree. A NUMA node stands for its memory: the route
  // starts with a read of that memory, or ends with a write to it.
  std::vector<Hop> route(NodeId from, NodeId to) const;
  // The NVLinks from one GPU to another, directly or through the NVSwitch. Empty if there are none.
  std::vector<Hop> nvlinkRoute(NodeId from, NodeId to) const;

  // The names in text and JSON output: "GPU 2", "NIC mlx5_0", "switch P1", "CPU 0"; a link is "GPU 2 - switch P1".
  std::string nameOf(NodeId id) const;
  std::string nameOfLink(LinkId id) const;
  size_t indexOf(NodeId id) const;  // among the nodes of its kind

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
