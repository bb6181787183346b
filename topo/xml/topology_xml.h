// Reads and writes the two file formats for machines: NCCL's topology XML (read and written) and
// hwloc's XML (read only). The functions have no side effects.
//
// The readers accept every file that NCCL accepts. They ignore unknown elements and attributes. If
// a file has no gpu or net element, the PCI class decides what a device is. An error message has
// the form "line N: why".
//
// The NCCL format may carry measured rates in GB/s (10^9 bytes per second) in attributes that NCCL
// ignores:
//   pci, nvlink   bps_bw               each way
//   cpu           bps_memory_bw        memory, read and written together
//                 bps_interconnect_bw  to the other NUMA nodes, each way
//                 bps_peer_bw          limit of GPU-to-GPU copies on the interconnect
#pragma once
#include <string>

#include "src/base/status.h"
#include "topo/topology_builder.h"
#include "topo/xml/document.h"

namespace bps {

Result<TopologyBuilder> readNcclXml(const XmlElement& system);
Result<TopologyBuilder> readHwlocXml(const XmlElement& topology);
std::string writeNcclXml(const Topology& topology);

// Chooses the reader by the root element: <system> is NCCL's, <topology> is hwloc's.
Result<TopologyBuilder> readMachineXml(std::string_view text);

}  // namespace bps
