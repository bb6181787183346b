// Reads a machine from one line of text, for tests and what-if questions. The functions have no
// side effects.
//
//   machine   = { part " " } { setting " " }
//   part      = "cpu" [ "[" { device " " } "]" ] [ "*" count ]
//   device    = "sw[" { device " " } "]" [ "*" count ] [ ":" GB/s ]     a PCIe switch
//             | "gpu" [ "*" count ] [ ":" GB/s ]
//             | "nic" [ "*" count ] [ ":" Gbit/s ]
//   setting   = "pci=" GB/s         every PCIe link without a separate rate (default 13.1)
//             | "nvlink=" GB/s      an NVSwitch connects the GPUs, each at this rate
//             | "peer=" GB/s        copies between GPUs of different CPUs
//             | "interconnect=" GB/s | "memory=" GB/s
//             | "cores=" count      number of cores of each CPU (default 8)
//
// The two machines of the BytePS paper:  cpu[sw[gpu*4] nic] cpu[sw[gpu*4]] pci=13.125 peer=10
//                                        cpu[sw[gpu*2 nic] sw[gpu*2]] cpu[sw[gpu*2]*2] nvlink=150
// 1 GB/s is 10^9 bytes per second each way. NICs are named nic0, nic1, ... and have 100 Gbit/s by default.
// No real device has the bus ids of synthetic devices (ffff0000:00:00.0 and so on).
#pragma once
#include <string_view>

#include "src/base/status.h"
#include "topo/topology_builder.h"

namespace bps {

// True if `text` describes a machine in this format. False if `text` is the name of a file.
bool isSyntheticText(std::string_view text);
// If the text is invalid, fails with kInvalidArgument and names the position and what was expected
// there.
Result<TopologyBuilder> readSynthetic(std::string_view text);

}  // namespace bps
