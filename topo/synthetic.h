// Reads a machine from one line of text, for tests and what-if questions. Pure.
//
//   machine   = { part " " } { setting " " }
//   part      = "cpu" [ "[" { device " " } "]" ] [ "*" count ]
//   device    = "sw[" { device " " } "]" [ "*" count ] [ ":" GB/s ]     a PCIe switch
//             | "gpu" [ "*" count ] [ ":" GB/s ]
//             | "nic" [ "*" count ] [ ":" Gbit/s ]
//   setting   = "pci=" GB/s         every PCIe link without a rate of its own (13.1)
//             | "nvlink=" GB/s      an NVSwitch connects the GPUs, each at this rate
//             | "peer=" GB/s        copies between GPUs of different CPUs
//             | "interconnect=" GB/s | "memory=" GB/s
//             | "cores=" count      of each CPU (8)
//
// The two machines of the BytePS paper:  cpu[sw[gpu*4] nic] cpu[sw[gpu*4]] pci=13.125 peer=10
//                                        cpu[sw[gpu*2 nic] sw[gpu*2]] cpu[sw[gpu*2]*2] nvlink=150
// 1 GB/s is 10^9 bytes per second each way. NICs are named nic0, nic1, ... and have 100 Gbit/s by default.
// No real device has the bus ids that are used here (ffff0000:00:00.0 ...).
#pragma once
#include <string_view>

#include "src/base/status.h"
#include "topo/topology_builder.h"

namespace bps {

// Returns whether `text` is such a line rather than the name of a file.
bool isSyntheticText(std::string_view text);
// Fails with kInvalidArgument, naming the position and what was expected there.
Result<TopologyBuilder> readSynthetic(std::string_view text);

}  // namespace bps
