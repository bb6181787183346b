// The best mixture of cpu_assisted and brute force, for the report of bps-topo. Pure.
#pragma once
#include <cstdint>
#include <vector>

#include "topo/plan/planner.h"

namespace bps {

// Every rank copies the fraction x of its buffer whole to host memory, where the CPU adds everything (brute force), and
// cpu_assisted reduces the rest. bps only reports this: brute force multiplies the memory traffic by the number of
// ranks under a switch.
struct Mixture {
  double x = 0;
  double seconds = 0;
};

Mixture bestMixture(const Topology& topology, const LocalPlan& cpuAssisted, uint64_t bytes, uint64_t unit);

// The x in [0, 1] that minimizes the maximum over i of (1-x) at0[i] + x at1[i].
Mixture minimizeSlowestLine(const std::vector<double>& at0, const std::vector<double>& at1);

}  // namespace bps
