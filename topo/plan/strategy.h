// Local strategies: how the ranks of one machine combine their buffers before the network stage and
// distribute the result after the network stage. The functions have no side effects. M is the size
// of each rank's buffer, l the number of ranks in a group.
//
//   cpu_assisted  Each group reduce-scatters under its switch. Every rank copies its M/l bytes of the
//                 group's sum to host memory. The CPU adds the groups' sums. After the network stage,
//                 every rank copies its M/l bytes back, and the group all-gathers.
//   scatter       All ranks reduce-scatter (over NVLink). Every rank copies its part to host memory.
//                 After the network stage, every rank copies its part back, and all ranks all-gather.
//   rooted        All ranks reduce to the roots (over NVLink), one part per root. Only the roots copy
//                 to and from host memory. After the network stage, the roots broadcast the result.
//   flat_ring     All ranks form one ring, whatever links connect them. The parts are as in scatter.
//
// Ranks exchange data directly. If NVLinks connect the GPUs only along a ring, the parts travel
// along that ring. program.h describes the steps and the order of summation.
//
// Every strategy runs on every machine. The planner (planner.h) chooses the best one.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "topo/plan/placement.h"
#include "topo/plan/traffic.h"

namespace bps {

enum class Strategy { kCpuAssisted, kScatter, kRooted, kFlatRing };
constexpr Strategy kStrategies[] = {Strategy::kCpuAssisted, Strategy::kScatter, Strategy::kRooted, Strategy::kFlatRing};
std::string_view nameOf(Strategy strategy);

// The plan that all ranks of a machine follow for every buffer.
struct LocalPlan {
  Strategy strategy = Strategy::kCpuAssisted;
  Placement placement;
  std::vector<size_t> roots;               // ranks; kRooted only
  std::vector<NicAssignment> assignments;  // the rank of each part of the buffer; see cutByAssignment
  std::vector<size_t> ring;                // all ranks in the order of the ring
  bool alongRing = false;                  // true if scatter and rooted also pass their parts along the ring
  bool staged = true;                      // false if no copy goes through host memory (one machine without a CPU sum)
  double network = 1;                      // bytes through the machine's NICs, each way, per byte of the buffer
};

// Returns all ranks in the order of a ring of NVLinks. Empty if NVLinks form no ring of all ranks.
std::vector<size_t> nvlinkRing(const Topology& topology, const Placement& placement);
// True if NVLink connects every pair of ranks.
bool nvlinkConnectsAll(const Topology& topology, const Placement& placement);

// True if a copy between two GPUs goes over PCIe from one switch to another.
bool crossesSwitches(const Topology& topology, const std::vector<Copy>& copies);

}  // namespace bps
