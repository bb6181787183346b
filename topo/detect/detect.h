// What the kernel and the drivers know of this machine, in three steps, each of which may find nothing:
// hwloc: CPUs, NUMA nodes, the PCI tree. sysfs: the speeds of links and NICs. NVML, where it is installed: NVLink.
#pragma once
#include <string>

#include "src/base/status.h"
#include "topo/topology_builder.h"

namespace bps {

// This machine. What hwloc finds goes through its XML, so that a recorded machine and this one take the same way.
Result<TopologyBuilder> detectMachine();

constexpr const char* kHwlocLibrary = "libhwloc.so.15";
// hwloc's XML of this machine. kSystem when the library is not there.
Result<std::string> hwlocXml(const char* library);

// PCIe links get the speed that both ends can do (an idle GPU's link runs slower than that), NICs their line rate; one
// that has no link is marked. `root` is where sysfs is mounted.
void addSysfs(TopologyBuilder& builder, const std::string& root);

constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";
// NVLinks and compute capabilities. Returns what was in the way, "" for nothing; the draft is then as it was.
std::string addNvml(TopologyBuilder& builder, const char* library);

}  // namespace bps
