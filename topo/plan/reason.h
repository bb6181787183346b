// Explains in words why a strategy was chosen. The functions have no side effects.
#pragma once
#include <string>

#include "topo/plan/planner.h"

namespace bps {

std::string reasonOf(const Topology& topology, const LocalPlanRequest& job, const Decision& decision, bool nvlink);
// Formats a list of GPUs or ranks, as in "0-3", "2" or "0, 2-3".
std::string formatRanges(const std::vector<size_t>& numbers);
// Returns the candidate's slowest link and direction, as in "switch P0 - CPU 0, up".
std::string bottleneckOf(const Topology& topology, const Candidate& candidate);

}  // namespace bps
