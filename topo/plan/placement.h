// Placement: where the ranks of one machine are, which of them share a PCIe switch, and which rank uses which NIC.
// Pure: every rank of the machine computes the same placement.
#pragma once
#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "topo/topology.h"

namespace bps {

struct RankPlacement {
  NodeId location = kNoNode;  // where its buffer is: a GPU, or a NUMA node for a buffer in host memory
  NodeId numa = kNoNode;      // NUMA node of its staging buffers
  CpuSet cpus;                // CPUs of its threads: the rank's share of the NUMA node's CPUs
};

// Ranks whose GPUs are under one switch, in rank order. A GPU without a switch forms a group of its own, and so does a
// rank in host memory.
struct SwitchGroup {
  NodeId head = kNoNode;  // the switch, or the location of the only rank
  NodeId numa = kNoNode;
  std::vector<size_t> ranks;
};

struct NicShare {
  NodeId nic = kNoNode;
  uint64_t weight = 0;  // its rate in Mbit/s; the NIC's share of every buffer is proportional to it
};

struct Placement {
  std::vector<RankPlacement> ranks;
  std::vector<SwitchGroup> groups;
  std::vector<NicShare> nics;
  std::vector<size_t> groupOf;  // by rank
};

// A rank that sends and receives part of the buffer through a NIC. The ranks of one NIC share its part evenly.
struct NicAssignment {
  size_t rank = 0;
  NodeId nic = kNoNode;   // kNoNode: the machine has no NIC
  NodeId numa = kNoNode;  // nearest to the NIC: that part is summed there, and the rank's network thread runs there
  uint64_t weight = 0;    // of the NIC
};

// The location of the ranks' buffers: on their GPUs, or in host memory next to them.
enum class BufferLocation { kOnGpus, kHostNextToGpus };

// `gpus` holds the GPU index of each local rank, or -1 for a buffer in host memory. Ranks with -1 are assigned to the
// NUMA nodes round-robin.
Result<Placement> placeRanks(const Topology& topology, const std::vector<int>& gpus,
                             BufferLocation bufferLocation = BufferLocation::kOnGpus);

// `drivers` are the ranks that use NICs. Each gets the nearest NIC that has not yet reached its number of drivers,
// which is proportional to the NIC's rate. Every NIC gets at least one driver. The result is ordered by NIC.
std::vector<NicAssignment> assignNics(const Topology& topology, const Placement& placement,
                                      const std::vector<size_t>& drivers);

// Cuts `bytes` into parts of whole units of `unit` bytes, in proportion to the weights. Returns the offset of each part
// and the end. Every rank computes the same cut. A remainder of less than a unit goes to the last part.
std::vector<uint64_t> cutByWeight(uint64_t bytes, uint64_t unit, const std::vector<uint64_t>& weights);
// Cuts `bytes` into one part per assignment: by weight among the NICs, then evenly among the ranks of a NIC.
std::vector<uint64_t> cutByAssignment(uint64_t bytes, uint64_t unit, const std::vector<NicAssignment>& assignments);

}  // namespace bps
