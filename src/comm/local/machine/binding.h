// Binding: chooses the CPUs of a rank's progress thread and the NUMA nodes of the memory that local ranks share. The
// functions that decide are pure; bindThread() and bindMemory() apply the decisions.
//
// A rank with a GPU is bound to some CPUs of the GPU's NUMA node, which the machine plan chooses. A
// rank whose buffers are in host memory is not bound, because the machine plan knows no better
// place than the CPUs on which the user runs the rank.
#pragma once
#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/comm/local/machine/machine_plan.h"

namespace bps {

struct CpuAvailability {
  std::vector<unsigned> online;   // CPUs of this machine
  std::vector<unsigned> allowed;  // CPUs on which the user lets this process run
};
// Reads the online and the allowed CPUs from the kernel.
CpuAvailability readCpuAvailability();

// True if the topology describes this machine (all its CPUs are online) and has more than one NUMA node.
bool canBindToNuma(const Topology& topology, const std::vector<unsigned>& online);

// Returns the CPUs of the rank's progress thread. If the result is empty, the affinity of the
// thread must not change. The result is empty if the user has restricted the process to some CPUs,
// unless `ignoreUser` (BPS_IGNORE_CPU_AFFINITY) is set.
std::vector<unsigned> progressThreadCpus(const MachinePlan& plan, size_t rank, const CpuAvailability& here,
                                         bool ignoreUser);
// Binds the calling thread; does nothing if `cpus` is empty.
Status bindThread(const std::vector<unsigned>& cpus);

// A range of bytes of one ring slot, and the NUMA node on which these bytes should be. The area of
// a rank is on the node of the rank. Each part of the sum is on the node that computes this part.
struct NumaRange {
  size_t area = 0;  // a local rank, or the number of local ranks for the sum area
  uint64_t begin = 0, end = 0;
  int node = 0;  // the kernel's node number
  bool operator==(const NumaRange&) const = default;
};
std::vector<NumaRange> numaRanges(const Topology& topology, const LocalPlan& plan, uint64_t slotBytes);
// Sets the preferred NUMA node of all complete pages in the range, for every process that maps
// them. Call it before any process accesses the pages. If the node has no free memory, the kernel
// uses another node.
Status bindMemory(uint8_t* begin, uint64_t bytes, int node);

}  // namespace bps
