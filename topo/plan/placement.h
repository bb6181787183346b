// Placement: where the ranks of one machine are, which of them work under one switch, and which drives which NIC. Pure:
// every rank of the machine comes to the same one.
#pragma once
#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "topo/topology.h"

namespace bps {

struct RankPlacement {
  NodeId location = kNoNode;  // where its buffer is: a GPU, or a NUMA node for a buffer in host memory
  NodeId numa = kNoNode;      // where its staging buffers are
  CpuSet cpus;                // where its threads run: its part of the NUMA node's CPUs
};

// Ranks whose GPUs are under one switch, in rank order. A GPU on lanes of its own, and a rank in host memory, is alone.
struct SwitchGroup {
  NodeId head = kNoNode;  // the switch, or the only seat
  NodeId numa = kNoNode;
  std::vector<size_t> ranks;
};

struct NicShare {
  NodeId nic = kNoNode;
  uint64_t weight = 0;  // its part of every buffer is in proportion to it: its rate in Mbit/s
};

struct Placement {
  std::vector<RankPlacement> ranks;
  std::vector<SwitchGroup> groups;
  std::vector<NicShare> nics;
  std::vector<size_t> groupOf;  // by rank
};

// A rank sends and receives part of the buffer through a NIC. The part of a NIC is cut evenly among those who drive it.
struct NicAssignment {
  size_t rank = 0;
  NodeId nic = kNoNode;   // kNoNode: the machine has none
  NodeId numa = kNoNode;  // nearest to the NIC: where that part is summed, and where the rank's network thread runs
  uint64_t weight = 0;    // of the NIC
};

// Where the ranks' buffers are: on their GPUs, or in the memory next to them.
enum class BufferLocation { kOnGpus, kHostNextToGpus };

// `gpus` names the GPU of each local rank by its index, -1 for a buffer in host memory; such ranks are dealt out to the
// NUMA nodes in turn.
Result<Placement> placeRanks(const Topology& topology, const std::vector<int>& gpus,
                             BufferLocation bufferLocation = BufferLocation::kOnGpus);

// Every driver gets the nearest NIC that has not got its number of drivers yet (in proportion to its rate), and every
// NIC at least one driver. Ordered by NIC.
std::vector<NicAssignment> assignNics(const Topology& topology, const Placement& placement,
                                      const std::vector<size_t>& drivers);

// `bytes` in whole units of `unit`, cut in proportion to the weights: where each part begins, and the end. Every rank
// cuts alike. A rest of less than a unit goes to the last part.
std::vector<uint64_t> cutByWeight(uint64_t bytes, uint64_t unit, const std::vector<uint64_t>& weights);
// The same for the parts of the duties.
std::vector<uint64_t> cutByAssignment(uint64_t bytes, uint64_t unit, const std::vector<NicAssignment>& assignments);

}  // namespace bps
