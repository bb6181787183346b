#include "src/comm/local/machine/binding.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "src/base/format.h"
#include "src/base/memory.h"

namespace bps {
namespace {

constexpr int kMpolPreferred = 1;  // MPOL_PREFERRED, with which the kernel may use another node
constexpr int kMaxNodes = 1024;

// Parses the kernel's list format, "0-3,8". Stops at the first character that does not fit the
// format.
std::vector<unsigned> parseKernelCpuList(const std::string& list) {
  std::vector<unsigned> cpus;
  size_t at = 0;
  const auto number = [&] {
    unsigned value = 0;
    for (; at < list.size() && list[at] >= '0' && list[at] <= '9'; ++at)
      value = value * 10 + static_cast<unsigned>(list[at] - '0');
    return value;
  };
  while (at < list.size() && list[at] >= '0' && list[at] <= '9') {
    const unsigned first = number();
    unsigned last = first;
    if (at < list.size() && list[at] == '-') {
      ++at;
      last = number();
    }
    for (unsigned cpu = first; cpu <= last && cpu < CpuSet::kMost; ++cpu) cpus.push_back(cpu);
    ++at;
  }
  return cpus;
}

bool contains(const std::vector<unsigned>& all, const std::vector<unsigned>& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

}  // namespace

CpuAvailability readCpuAvailability() {
  CpuAvailability here;
  std::ifstream file("/sys/devices/system/cpu/online");
  std::string list;
  std::getline(file, list);
  here.online = parseKernelCpuList(list);
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(::getpid(), sizeof set, &set) != 0) return here;
  for (unsigned cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) here.allowed.push_back(cpu);
  return here;
}

bool canBindToNuma(const Topology& topology, const std::vector<unsigned>& online) {
  const std::vector<NodeId>& numas = topology.all(NodeKind::kNuma);
  return numas.size() > 1 && std::all_of(numas.begin(), numas.end(), [&](NodeId numa) {
           return contains(online, topology.node(numa).cpu.cpus.cpus());
         });
}

std::vector<unsigned> progressThreadCpus(const MachinePlan& plan, size_t rank, const CpuAvailability& here,
                                         bool ignoreUser) {
  const RankPlacement& place = plan.program.plan().placement.ranks[rank];
  const bool atGpu = plan.topology.node(place.location).kind == NodeKind::kGpu || plan.stagedGpu[rank] >= 0;
  if (!atGpu || !canBindToNuma(plan.topology, here.online)) return {};
  if (!ignoreUser && !contains(here.allowed, here.online)) return {};
  return place.cpus.cpus();
}

Status bindThread(const std::vector<unsigned>& cpus) {
  if (cpus.empty()) return {};
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const unsigned cpu : cpus)
    if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) return systemFailure("sched_setaffinity", errno);
  return {};
}

std::vector<NumaRange> numaRanges(const Topology& topology, const LocalPlan& plan, uint64_t slotBytes) {
  std::vector<NumaRange> ranges;
  const auto nodeOf = [&](NodeId numa) { return topology.node(numa).cpu.numaId; };
  const std::vector<RankPlacement>& ranks = plan.placement.ranks;
  for (size_t rank = 0; rank < ranks.size(); ++rank) ranges.push_back({rank, 0, slotBytes, nodeOf(ranks[rank].numa)});
  const std::vector<uint64_t> parts = cutByAssignment(slotBytes, 1, plan.assignments);
  for (size_t d = 0; d < plan.assignments.size(); ++d) {
    const NicAssignment& assignment = plan.assignments[d];
    const NodeId numa = plan.strategy == Strategy::kCpuAssisted ? assignment.numa : ranks[assignment.rank].numa;
    const bool extendsLast = ranges.back().area == ranks.size() && ranges.back().node == nodeOf(numa);
    if (extendsLast) ranges.back().end = parts[d + 1];
    else ranges.push_back({ranks.size(), parts[d], parts[d + 1], nodeOf(numa)});
  }
  return ranges;
}

Status bindMemory(uint8_t* begin, uint64_t bytes, int node) {
  if (node < 0 || node >= kMaxNodes) return {};
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const uintptr_t first = roundUp(address, kPageBytes), last = (address + bytes) / kPageBytes * kPageBytes;
  if (first >= last) return {};
  constexpr size_t kBits = 8 * sizeof(unsigned long);
  std::vector<unsigned long> nodes(kMaxNodes / kBits);
  nodes[static_cast<size_t>(node) / kBits] |= 1UL << (static_cast<size_t>(node) % kBits);
  if (::syscall(SYS_mbind, first, last - first, kMpolPreferred, nodes.data(), kMaxNodes + 1, 0) != 0)
    return systemFailure(fmt::format("mbind of shared memory to NUMA node {}", node), errno);
  return {};
}

}  // namespace bps
