// Computes the best mixture of cpu_assisted and brute force (see Mixture in planner.h). Pure.
#pragma once
#include "topo/plan/planner.h"

namespace bps {

// The x in [0, 1] that minimizes the maximum over i of (1-x) at0[i] + x at1[i].
Mixture minimizeSlowestLine(const std::vector<double>& at0, const std::vector<double>& at1);

Mixture bestMixture(const Topology& topology, const LocalPlan& cpuAssisted, uint64_t bytes, uint64_t unit);

}  // namespace bps
