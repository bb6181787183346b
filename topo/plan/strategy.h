// Local strategies: how the ranks of one machine combine their buffers before the network, and hand out the result
// after it. Pure. M is the buffer of each rank, l the ranks of a group, L all ranks.
//
//   cpu_assisted  each group reduce-scatters under its switch; every rank copies its M/l to host memory; the CPU adds
//                 the groups' copies; network; every rank copies its M/l back; all-gather under the switch
//   scatter       all ranks reduce-scatter (over NVLink); every rank copies its part to host memory; network; back;
//                 all-gather
//   rooted        all ranks reduce to the roots (over NVLink), each root a part; only the roots copy to and from host
//                 memory; broadcast
//   flat_ring     a ring over all ranks, whatever is between them; the parts as in scatter
//
// Ranks exchange directly. Where NVLinks join the GPUs only along a ring, the parts travel along it. Step by step, with
// the order in which contributions are added, it stands in program.h.
//
// Every strategy runs on every machine; which is good, planner.h says.
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

// What all ranks of a machine do for every buffer.
struct LocalPlan {
  Strategy strategy = Strategy::kCpuAssisted;
  Placement placement;
  std::vector<size_t> roots;               // ranks; of kRooted only
  std::vector<NicAssignment> assignments;  // who owns which part; see cutByAssignment
  std::vector<size_t> ring;                // all ranks in the order of the ring
  bool alongRing = false;                  // scatter and rooted pass their parts along the ring too
  bool staged = true;  // false: nothing goes through host memory (one machine, one group; a single rank there)
  double network = 1;  // bytes through the machine's NICs, each way, for every byte of the buffer
};

// The order in which NVLinks join all ranks to a ring; empty where they do not.
std::vector<size_t> nvlinkRing(const Topology& topology, const Placement& placement);
// Every two ranks are joined by NVLink.
bool nvlinkConnectsAll(const Topology& topology, const Placement& placement);

// A peer copy goes over PCIe from one group to another.
bool crossesSwitches(const Topology& topology, const std::vector<Copy>& copies);

}  // namespace bps
