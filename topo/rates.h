// What the links of a machine carry when nobody has measured them, in bytes per second each way. The numbers are those
// NCCL plans with: effective rates, not nominal ones. 0: unknown.
#pragma once
#include <string_view>

namespace bps {

struct Cpu;

constexpr double kGiga = 1e9;
constexpr double kBytesPerMbit = 1e6 / 8;

// Lanes of the given speed ("8.0 GT/s": 8.0); an unknown speed counts as 8 GT/s, an unknown width as 16.
double pcieRate(double gigatransfers, int width);
// One NVLink of a GPU with compute capability `sm` / 10.
double nvlinkRate(int sm);
// Copies between GPUs below different sockets, which the root complexes limit, not the socket's link.
double peerRateBetweenSockets(const Cpu& cpu);
// The effective part of the raw rate that hwloc gives for a PCIe link (3.0 x16: 15.75 GB/s, of which NCCL counts 12).
constexpr double kEffectiveRawPcieFraction = 0.75 * 130 / 128;

}  // namespace bps
