// Explains in words why a strategy was chosen. Pure.
#pragma once
#include <string>

#include "topo/plan/planner.h"

namespace bps {

std::string reasonOf(const Topology& topology, const LocalPlanRequest& job, const Decision& decision, bool nvlink);
// "0-3", "2", "0, 2-3": for lists of GPUs and ranks.
std::string formatRanges(const std::vector<size_t>& numbers);
// The candidate's slowest link and direction: "switch P0 - CPU 0, up".
std::string bottleneckOf(const Topology& topology, const Candidate& candidate);

}  // namespace bps
