// Computes the best mixture of cpu_assisted and brute force, for the report of bps-topo. The
// functions have no side effects.
#pragma once
#include <cstdint>
#include <vector>

#include "topo/plan/planner.h"

namespace bps {

// A mixture of two ways to sum. With brute force, every rank copies a fraction x of its buffer to
// host memory, and the CPU adds these fractions of all ranks. The strategy cpu_assisted reduces the
// remaining fraction of the buffers. Although bps reports the mixture, bps does not use the
// mixture, because brute force multiplies the memory traffic by the number of ranks under a switch.
struct Mixture {
  double x = 0;
  double seconds = 0;
};

Mixture bestMixture(const Topology& topology, const LocalPlan& cpuAssisted, uint64_t bytes, uint64_t unit);

// Returns the x in [0, 1] that minimizes the maximum of (1-x) at0[i] + x at1[i] over all i.
Mixture minimizeSlowestLine(const std::vector<double>& at0, const std::vector<double>& at1);

}  // namespace bps
