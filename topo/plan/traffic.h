// Traffic: the bytes of each kind of copy on each link in each direction, and the time that the
// links need for these bytes. The planner counts the copies that a strategy will make, and the data
// path counts the copies that it has made. Traffic is not thread-safe.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "topo/topology.h"

namespace bps {

enum class CopyKind {
  kPeer,     // from one rank's device memory to another's
  kStaging,  // between a device and host memory
  kSum,      // reads and writes of the CPU that adds contributions
  kNic,      // between host memory and a NIC
};
constexpr size_t kCopyKinds = 4;
std::string_view nameOf(CopyKind kind);

struct Copy {
  CopyKind kind = CopyKind::kPeer;
  NodeId from = kNoNode, to = kNoNode;
  uint64_t bytes = 0;
  bool stored = true;  // false: the CPU adds the data to a sum that another copy writes to `to`
};

// Returns the links that a copy takes. A copy between two GPUs takes NVLink if NVLinks connect the
// two. Every other copy takes the tree of PCIe links and CPU interconnects.
std::vector<Hop> hopsOf(const Topology& topology, const Copy& copy);

struct LinkBytes {
  std::array<uint64_t, kCopyKinds> up{}, down{};

  uint64_t total(bool upward) const;
  // Returns the bytes of all kinds of copies except kNic.
  uint64_t gpuBytes(bool upward) const { return total(upward) - (upward ? up : down)[size_t(CopyKind::kNic)]; }
};

class Traffic {
 public:
  explicit Traffic(const Topology& topology) : links_(topology.links().size()) {}
  void addCopy(const Topology& topology, const Copy& copy);
  const LinkBytes& linkBytes(LinkId link) const { return links_[link]; }
  LinkBytes& linkBytes(LinkId link) { return links_[link]; }

 private:
  std::vector<LinkBytes> links_;
};

// The limits of a link: its rate in each direction, and the rate of peer copies in each direction.
// The two directions of a memory link share one rate, which counts as kUp.
enum class Limit { kUp, kDown, kPeerUp, kPeerDown };
constexpr size_t kLimits = 4;
// Returns the seconds for each link and limit, kLimits values per link.
std::vector<double> linkSeconds(const Topology& topology, const Traffic& traffic);

}  // namespace bps
