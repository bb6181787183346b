// A machine in one line of text, for tests and for "what if". Pure.
//
//   machine   = { part " " } { setting " " }
//   part      = "cpu" [ "[" { device " " } "]" ] [ "*" count ]
//   device    = "sw[" { device " " } "]" [ "*" count ] [ ":" GB/s ]     a PCIe switch
//             | "gpu" [ "*" count ] [ ":" GB/s ]
//             | "nic" [ "*" count ] [ ":" Gbit/s ]
//   setting   = "pci=" GB/s         every PCIe link that does not say otherwise (13.1)
//             | "nvlink=" GB/s      the GPUs are joined by an NVSwitch, each at this rate
//             | "peer=" GB/s        copies between GPUs below different CPUs
//             | "interconnect=" GB/s | "memory=" GB/s
//             | "cores=" count      of each CPU (8)
//
// The two machines of the BytePS paper:  cpu[sw[gpu*4] nic] cpu[sw[gpu*4]] pci=13.125 peer=10
//                                        cpu[sw[gpu*2 nic] sw[gpu*2]] cpu[sw[gpu*2]*2] nvlink=150
// GB/s are 10^9 bytes a second each way. NICs are named nic0, nic1, ... and have 100 Gbit/s unless they say otherwise.
// Bus ids (ffff0000:00:00.0 ...) are those of no real device.
#pragma once
#include <string_view>

#include "src/base/status.h"
#include "topo/topology_builder.h"

namespace bps {

// Whether the text is meant as such a line and not as the name of a file.
bool isSyntheticText(std::string_view text);
// kInvalidArgument: where the text is wrong, and what would be right there.
Result<TopologyBuilder> readSynthetic(std::string_view text);

}  // namespace bps
