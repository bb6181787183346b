// TopologyBuilder collects the devices of one machine from a file, a line of text or the kernel,
// and builds a Topology. A builder has no locking, so only one thread may use it.
//
// Readers may add PCI bridges in any amount of detail. build() checks the devices, drops bridges
// without devices and NICs without a link, and folds a bridge with one device into that device's
// link. It numbers each parent before its children.
#pragma once
#include <string>
#include <vector>

#include "src/base/status.h"
#include "topo/topology.h"

namespace bps {

struct NvlinkSpec {
  NodeId gpu = kNoNode;
  std::string target = {};  // bus id of the other GPU; unused if toSwitch is true
  bool toSwitch = false;    // an NVSwitch
  int count = 1;            // links
  double measured = 0;      // bytes per second of all links together, each way; 0: rate of the compute capability
};

class TopologyBuilder {
 public:
  static constexpr size_t kMaxNodes = 4096, kMaxGpus = 64, kMaxDepth = 32;

  TopologyBuilder() { nodes_.emplace_back(); }
  // The parent of `node` must already be in the builder. Fails unless the parent of a NUMA node is
  // the machine, and the parent of a switch, GPU or NIC is a NUMA node or a switch. Fails if
  // another GPU has the same bus id.
  Result<NodeId> add(Node node);
  void add(NvlinkSpec nvlink) { nvlinks_.push_back(std::move(nvlink)); }

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<NvlinkSpec>& nvlinks() const { return nvlinks_; }
  // Sets the rate from `gpu` to the GPU with bus id `other`, and divides it evenly among all
  // NVLinks that can connect the two GPUs. Returns false if there is no such NVLink.
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

// Classifies a PCI function by its class code (six hexadecimal digits) and its vendor id. A vendor
// id of 0 means unknown.
enum class PciKind { kOther, kBridge, kGpu, kNic, kNvSwitch };
PciKind pciKindOf(unsigned classCode, unsigned vendor);

}  // namespace bps
