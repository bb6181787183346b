// Detects the hardware of this machine in three steps. hwloc reports CPUs, NUMA nodes and the PCI tree. sysfs reports
// the speeds of links and NICs. NVML, if it is installed, reports NVLink. hwloc is required, the others are optional.
#pragma once
#include <string>

#include "src/base/status.h"
#include "topo/topology_builder.h"

namespace bps {

// Detects this machine. hwloc's result is read as XML, so that a recorded machine and this one use the same reader.
Result<TopologyBuilder> detectMachine();

constexpr const char* kHwlocLibrary = "libhwloc.so.15";
// hwloc's XML of this machine. Fails with kSystem if the library is missing. Calls from several threads are serialized.
Result<std::string> hwlocXml(const char* library);

// Sets the speed of PCIe links to the maximum that both ends support, because an idle GPU's link runs slower than that.
// Sets the line rate of NICs and marks NICs without a link. `root` is where sysfs is mounted.
void addSysfs(TopologyBuilder& builder, const std::string& root);

constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";
// Adds NVLinks and compute capabilities. Returns "", or the reason why NVML cannot be used; the builder is then
// unchanged.
std::string addNvml(TopologyBuilder& builder, const char* library);

}  // namespace bps
