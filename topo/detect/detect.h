// Detects the hardware of this machine in three steps. hwloc reports CPUs, NUMA nodes and the PCI
// tree. sysfs reports the speeds of links and NICs. NVML, if it is installed, reports NVLinks.
// hwloc is required; sysfs and NVML are optional.
#pragma once
#include <string>

#include "src/base/status.h"
#include "topo/topology_builder.h"

namespace bps {

// Detects this machine. hwloc's result is read as XML, so that the same reader serves this machine
// and recorded machines.
Result<TopologyBuilder> detectMachine();

constexpr const char* kHwlocLibrary = "libhwloc.so.15";
// Returns hwloc's XML of this machine. Fails with kSystem if the library is missing. Calls from
// several threads run one after another.
Result<std::string> hwlocXml(const char* library);

// Sets the speed of each PCIe link to the maximum that both ends support, because the link of an
// idle GPU runs below its maximum. Sets the line rate of NICs and marks NICs without a link. `root`
// is the directory where sysfs is mounted.
void addSysfs(TopologyBuilder& builder, const std::string& root);

constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";
// Adds NVLinks and compute capabilities. Returns "" on success. If NVML cannot be used, returns the
// reason and leaves the builder unchanged.
std::string addNvml(TopologyBuilder& builder, const char* library);

}  // namespace bps
