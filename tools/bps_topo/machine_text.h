// Makes the text output of `bps-topo show` and of `bps-topo plan` for one machine. The text shows
// the tree of devices, the strategies and the traffic of each link.
#pragma once
#include <string>

#include "tools/bps_topo/mixture.h"
#include "topo/plan/planner.h"

namespace bps {

struct MachineReport {
  std::string source;  // "this machine", or the topology file or text
  Topology topology;
  LocalPlanRequest job;
  Decision decision;
  Mixture mixture;  // the best mixture of cpu_assisted and brute force
};

std::string showText(const MachineReport& report);
std::string planText(const MachineReport& report);
// Draws the machine as SVG: showSvg() with the rate of each link, planSvg() with the bytes that the
// chosen strategy sends over it.
std::string showSvg(const MachineReport& report);
std::string planSvg(const MachineReport& report);

// Returns a rate as text, such as "13.1 GB/s". Returns "unknown" for the rate 0.
std::string rateText(double bytesPerSecond);

}  // namespace bps
