// The two file formats of machines: NCCL's topology XML (read and written) and hwloc's XML (read). Pure.
//
// Readers take any file that NCCL takes (unknown elements and attributes are passed over, devices are told by their PCI
// class where a file has no gpu or net element) and say "line N: why" of what they cannot use.
//
// The NCCL form may carry rates that were measured, in attributes of ours that NCCL passes over, in GB/s (10^9 bytes):
//   pci, nvlink   bps_bw               each way
//   cpu           bps_memory_bw        memory, read and written together
//                 bps_interconnect_bw  to the other NUMA nodes, each way
//                 bps_peer_bw          of that, copies between GPUs
#pragma once
#include <string>

#include "src/base/status.h"
#include "topo/topology_builder.h"
#include "topo/xml/document.h"

namespace bps {

Result<TopologyBuilder> readNcclXml(const XmlElement& system);
Result<TopologyBuilder> readHwlocXml(const XmlElement& topology);
std::string writeNcclXml(const Topology& topology);

// By the root element: <system> is NCCL's, <topology> hwloc's.
Result<TopologyBuilder> readMachineXml(std::string_view text);

}  // namespace bps
