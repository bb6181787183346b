// The text output of `bps-topo show` and of `bps-topo plan` for one machine: the tree of devices, the strategies and
// the traffic of each link.
#pragma once
#include <string>

#include "tools/bps_topo/mixture.h"
#include "topo/plan/planner.h"

namespace bps {

struct MachineReport {
  std::string source;  // "this machine", or the file or text
  Topology topology;
  LocalPlanRequest job;
  Decision decision;
  Mixture mixture;  // of cpu_assisted and brute force
};

std::string showText(const MachineReport& report);
std::string planText(const MachineReport& report);
std::string showSvg(const MachineReport& report);

// "13.1 GB/s"; "unknown" for 0.
std::string rateText(double bytesPerSecond);

}  // namespace bps
