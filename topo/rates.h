// Default link rates, for links that nobody has measured, in bytes per second each way. They are the effective rates
// that NCCL plans with, not the nominal ones. 0: unknown.
#pragma once
#include <string_view>

namespace bps {

struct Cpu;

constexpr double kGiga = 1e9;
constexpr double kBytesPerMbit = 1e6 / 8;

// `width` PCIe lanes at `gigatransfers` GT/s each. An unknown speed counts as 8 GT/s, an unknown width as 16 lanes.
double pcieRate(double gigatransfers, int width);
// One NVLink of a GPU whose compute capability is `sm` / 10.
double nvlinkRate(int sm);
// Copies between GPUs of different sockets. The root complexes limit them, not the link between the sockets.
double peerRateBetweenSockets(const Cpu& cpu);
// The effective fraction of the raw PCIe rate that hwloc reports. For 3.0 x16 hwloc reports 15.75 GB/s; NCCL counts 12.
constexpr double kEffectiveRawPcieFraction = 0.75 * 130 / 128;

}  // namespace bps
