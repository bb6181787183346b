// The best mixture of cpu_assisted and brute force. Pure.
#pragma once
#include "topo/plan/planner.h"

namespace bps {

// The x in [0, 1] for which the slowest of all lines (1-x) at0[i] + x at1[i] is fastest.
Mixture minimizeSlowestLine(const std::vector<double>& at0, const std::vector<double>& at1);

Mixture bestMixture(const Topology& topology, const LocalPlan& cpuAssisted, uint64_t bytes, uint64_t unit);

}  // namespace bps
