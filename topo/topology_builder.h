// TopologyBuilder: a machine being described, by a file, a line of text or the kernel, until it becomes a Topology.
//
// Readers add what they find in any amount of detail. build() checks it, leaves out bridges that lead nowhere, folds a
// bridge with one device into that device's link, and numbers everything in the order in which it was added.
#pragma once
#include <string>
#include <vector>

#include "src/base/status.h"
#include "topo/topology.h"

namespace bps {

struct NvlinkSpec {
  NodeId gpu = kNoNode;
  std::string target = {};  // bus id of the other GPU; unused when toSwitch
  bool toSwitch = false;    // an NVSwitch
  int count = 1;            // links
  double measured = 0;      // bytes per second of all of them, each way; 0: by the GPU's kind
};

class TopologyBuilder {
 public:
  static constexpr size_t kMaxNodes = 4096, kMaxGpus = 64, kMaxDepth = 32;

  TopologyBuilder() { nodes_.emplace_back(); }
  // The parent must have been added before. Its kind is checked here: NUMA nodes are in the machine, switches, GPUs and
  // NICs in a NUMA node or a switch. So is that no two GPUs have one bus id.
  Result<NodeId> add(Node node);
  void add(NvlinkSpec nvlink) { nvlinks_.push_back(std::move(nvlink)); }

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<NvlinkSpec>& nvlinks() const { return nvlinks_; }
  // The rate from a GPU to another one, over all NVLinks that can be the way between the two. False: there is none.
  bool setMeasuredNvlinkRate(NodeId gpu, const std::string& other, double rate);
  Node& node(NodeId id) { return nodes_[id]; }
  Result<Topology> build() const;

 private:
  struct BridgeFolding;
  Status checkGpu(const Node& gpu) const;
  Status check() const;
  void addNvlinks(Topology& topology, const std::vector<NodeId>& newIds) const;

  std::vector<Node> nodes_;
  std::vector<NvlinkSpec> nvlinks_;
};

// What a PCI function is, by its class (six digits) and vendor (0: unknown).
enum class PciKind { kOther, kBridge, kGpu, kNic, kNvSwitch };
PciKind pciKindOf(unsigned classCode, unsigned vendor);

}  // namespace bps
