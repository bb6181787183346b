// Binding: where a rank's progress thread runs and where the memory that local ranks share lies. The decisions are
// pure.
//
// A rank that stands for a GPU belongs to the NUMA node at it: the plan gives it a part of that node's CPUs. Where a
// rank's buffers are in host memory the plan knows no better place than the one where the user runs it.
#pragma once
#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/comm/local/machine_plan.h"

namespace bps {

struct CpuAvailability {
  std::vector<unsigned> online;   // of this machine
  std::vector<unsigned> allowed;  // to this process, as the user started it
};
// What the kernel says.
CpuAvailability readCpuAvailability();

// The topology is of this machine (all its CPUs are there), and has more than one NUMA node to choose from.
bool canBindToNuma(const Topology& topology, const std::vector<unsigned>& online);

// Where the progress thread of the rank runs; empty: where it is. A user who has restricted the process has decided
// already, unless told to be ignored (BPS_IGNORE_CPU_AFFINITY).
std::vector<unsigned> progressThreadCpus(const MachinePlan& plan, size_t rank, const CpuAvailability& here,
                                         bool ignoreUser);
// The calling thread's.
Status bindThread(const std::vector<unsigned>& cpus);

// Where the bytes of one ring slot should lie: each rank's area at the rank, the sum's parts where they are added up.
struct NumaRange {
  size_t area = 0;  // a rank's, or the number of ranks: the sum's
  uint64_t begin = 0, end = 0;
  int node = 0;  // the kernel's number
  bool operator==(const NumaRange&) const = default;
};
std::vector<NumaRange> numaRanges(const Topology& topology, const LocalPlan& plan, uint64_t slotBytes);
// Whole pages of not yet touched shared memory, for all who map it; a wish that the kernel may not be able to grant.
Status bindMemory(uint8_t* begin, uint64_t bytes, int node);

}  // namespace bps
