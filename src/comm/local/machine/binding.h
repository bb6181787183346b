// Binding: chooses the CPUs of a rank's progress thread and the NUMA nodes of the memory that local ranks share. The
// functions that decide are pure; bindThread() and bindMemory() apply the decisions.
//
// A rank with a GPU is bound to a share of the CPUs of the GPU's NUMA node, as the plan says. A rank whose buffers are
// in host memory is not bound: the plan knows no better place than the one where the user runs it.
#pragma once
#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/comm/local/machine/machine_plan.h"

namespace bps {

struct CpuAvailability {
  std::vector<unsigned> online;   // CPUs of this machine
  std::vector<unsigned> allowed;  // CPUs that this process may use, as the user started it
};
// Reads both from the kernel.
CpuAvailability readCpuAvailability();

// True if the topology describes this machine (all its CPUs are online) and has more than one NUMA node.
bool canBindToNuma(const Topology& topology, const std::vector<unsigned>& online);

// The CPUs of the rank's progress thread; empty: leave its affinity unchanged. If the user has restricted the process
// to some CPUs, that restriction wins, unless `ignoreUser` (BPS_IGNORE_CPU_AFFINITY) is set.
std::vector<unsigned> progressThreadCpus(const MachinePlan& plan, size_t rank, const CpuAvailability& here,
                                         bool ignoreUser);
// Binds the calling thread; does nothing if `cpus` is empty.
Status bindThread(const std::vector<unsigned>& cpus);

// A range of one ring slot and the NUMA node that it should be on: a rank's area on the rank's node, each part of the
// sum on the node that adds it up.
struct NumaRange {
  size_t area = 0;  // a local rank; the number of ranks stands for the sum area
  uint64_t begin = 0, end = 0;
  int node = 0;  // the kernel's node number
  bool operator==(const NumaRange&) const = default;
};
std::vector<NumaRange> numaRanges(const Topology& topology, const LocalPlan& plan, uint64_t slotBytes);
// Sets the preferred NUMA node of the whole pages in the range, for every process that maps them. Call it before the
// pages are touched. If the node has no free memory, the kernel uses another one.
Status bindMemory(uint8_t* begin, uint64_t bytes, int node);

}  // namespace bps
