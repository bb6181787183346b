// Default rates, in bytes per second each way, for links that nobody has measured. These are the
// effective rates that NCCL plans with, not the nominal ones. A rate of 0 means unknown.
#pragma once
#include <string_view>

namespace bps {

struct Cpu;

constexpr double kGiga = 1e9;
constexpr double kBytesPerMbit = 1e6 / 8;

// Returns the rate of `width` PCIe lanes at `gigatransfers` GT/s each. An unknown speed counts as 8
// GT/s, an unknown width as 16 lanes.
double pcieRate(double gigatransfers, int width);
// Returns the rate of one NVLink of a GPU whose compute capability is `sm` / 10.
double nvlinkRate(int sm);
// Returns the rate of copies between GPUs of different CPU sockets. The sockets' PCIe root
// complexes limit these copies; the link between the sockets does not.
double peerRateBetweenSockets(const Cpu& cpu);
// The fraction of a raw PCIe rate that is effective. hwloc reports raw rates. For PCIe 3.0 x16,
// hwloc reports 15.75 GB/s, and NCCL counts 12 GB/s.
constexpr double kEffectiveRawPcieFraction = 0.75 * 130 / 128;

}  // namespace bps
