// Traffic: the bytes of each kind on each link and in each direction, and how long the links need for them. The planner
// fills one with what a strategy is going to move, the data path with what it moved: both charge whole copies.
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
  kSum,      // what the CPU reads to add up, and writes
  kNic,      // between host memory and a NIC
};
constexpr size_t kCopyKinds = 4;
std::string_view nameOf(CopyKind kind);

struct Copy {
  CopyKind kind = CopyKind::kPeer;
  NodeId from = kNoNode, to = kNoNode;
  uint64_t bytes = 0;
  bool stored = true;  // false: the CPU adds it to what another copy stores, so the memory at `to` is not written again
};

// The links that a copy takes: peer copies NVLink where the two GPUs have it, everything else the tree.
std::vector<Hop> hopsOf(const Topology& topology, const Copy& copy);

struct LinkBytes {
  std::array<uint64_t, kCopyKinds> up{}, down{};

  uint64_t total(bool upward) const;
  // By GPUs, that is without kNic.
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

// What limits a link: each direction, what peer copies may have of it, both directions together for memory.
enum class Limit { kUp, kDown, kPeerUp, kPeerDown };
constexpr size_t kLimits = 4;
// Seconds by link and limit, kLimits for each link.
std::vector<double> linkSeconds(const Topology& topology, const Traffic& traffic);

}  // namespace bps
