// Computes the steps of the strategy cpu_assisted (see program.h), without side effects.
#pragma once
#include "topo/plan/program.h"

namespace bps {

// Returns the number of stages, including the first and the last.
size_t cpuAssistedStages(const LocalPlan& plan);
std::vector<Step> cpuAssistedSteps(const LocalProgram& program, size_t rank, uint64_t bytes, uint64_t unit);

}  // namespace bps
