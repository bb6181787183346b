#include "topo/rates.h"

#include "topo/topology.h"

namespace bps {
namespace {

constexpr int kSkylake = 0x55, kSapphireRapids = 0x8F, kEmeraldRapids = 0xCF;

// A PCIe generation: gigatransfers per second of one lane, and the effective rate of one lane in
// Gbit/s.
struct Generation {
  double gigatransfers;
  double laneGbps;
};
constexpr Generation kGenerations[] = {{2.5, 1.5}, {5, 3}, {8, 6}, {16, 12}, {32, 24}, {64, 48}};

}  // namespace

double pcieRate(double gigatransfers, int width) {
  double lane = 6;
  for (const Generation& generation : kGenerations)
    if (gigatransfers == generation.gigatransfers) lane = generation.laneGbps;
  return (width > 0 ? width : 16) * lane / 8 * kGiga;
}

double nvlinkRate(int sm) {
  if (sm >= 100) return 40.1 * kGiga;
  if (sm >= 90) return 20.6 * kGiga;
  if (sm == 86) return 12 * kGiga;
  if (sm >= 70) return 20 * kGiga;
  if (sm >= 60) return 18 * kGiga;
  return 20 * kGiga;
}

double peerRateBetweenSockets(const Cpu& cpu) {
  if (cpu.vendor == "AuthenticAMD") return 16 * kGiga;
  if (cpu.arch == "arm64") return 6 * kGiga;
  if (cpu.arch == "ppc64") return 32 * kGiga;
  if (cpu.vendor == "GenuineIntel") {
    if (cpu.model >= kEmeraldRapids) return 40 * kGiga;
    if (cpu.model >= kSapphireRapids) return 22 * kGiga;
    if (cpu.model >= kSkylake) return 10 * kGiga;
  }
  return 6 * kGiga;
}

}  // namespace bps
