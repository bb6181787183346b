// Placement: where the ranks of one machine are, which of them share a PCIe switch, and which rank
// uses which NIC. The functions have no side effects, and every rank of the machine computes the
// same placement.
#pragma once
#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "topo/topology.h"

namespace bps {

struct RankPlacement {
  NodeId location = kNoNode;  // the place of the rank's buffer: a GPU, or a NUMA node for a buffer in host memory
  NodeId numa = kNoNode;      // NUMA node of the rank's staging buffers
  CpuSet cpus;                // CPUs for the rank's threads, an equal part of the NUMA node's CPUs
};

// Ranks whose GPUs are under one switch, in rank order. A GPU without a switch forms a separate
// group, and so does each rank whose buffer is in host memory.
struct SwitchGroup {
  NodeId head = kNoNode;  // the switch, or the location of the only rank
  NodeId numa = kNoNode;
  std::vector<size_t> ranks;
};

struct NicShare {
  NodeId nic = kNoNode;
  uint64_t weight = 0;  // the NIC's rate in Mbit/s, to which its part of every buffer is proportional
};

struct Placement {
  std::vector<RankPlacement> ranks;
  std::vector<SwitchGroup> groups;
  std::vector<NicShare> nics;
  std::vector<size_t> groupOf;  // by rank
};

// A rank that sends and receives a part of the buffer through a NIC. If several ranks use one NIC,
// they divide the NIC's part evenly.
struct NicAssignment {
  size_t rank = 0;
  NodeId nic = kNoNode;   // kNoNode: the machine has no NIC
  NodeId numa = kNoNode;  // the NUMA node nearest to the NIC: its CPUs sum the part and run the network thread
  uint64_t weight = 0;    // of the NIC
};

// The location of the ranks' buffers: on the ranks' GPUs, or in host memory next to these GPUs.
enum class BufferLocation { kOnGpus, kHostNextToGpus };

// `gpus` holds the GPU index of each local rank, or -1 for a buffer in host memory. Ranks with -1
// are assigned to the NUMA nodes in turn.
Result<Placement> placeRanks(const Topology& topology, const std::vector<int>& gpus,
                             BufferLocation bufferLocation = BufferLocation::kOnGpus);

// `drivers` are the ranks that use NICs. Each NIC takes a number of drivers in proportion to the
// NIC's rate, and at least one. Each driver gets the nearest NIC that can still take a driver. The
// result is ordered by NIC.
std::vector<NicAssignment> assignNics(const Topology& topology, const Placement& placement,
                                      const std::vector<size_t>& drivers);

// Cuts `bytes` into parts of whole units of `unit` bytes, in proportion to the weights. Returns the
// offset of each part and the end of the last part. Every rank computes the same cut. A remainder
// of less than a unit goes to the last part.
std::vector<uint64_t> cutByWeight(uint64_t bytes, uint64_t unit, const std::vector<uint64_t>& weights);
// Cuts `bytes` into one part per assignment. The NICs' parts are proportional to the NICs' weights.
// The ranks of one NIC divide its part evenly.
std::vector<uint64_t> cutByAssignment(uint64_t bytes, uint64_t unit, const std::vector<NicAssignment>& assignments);

}  // namespace bps
