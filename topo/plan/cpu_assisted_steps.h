// The steps of the strategy cpu_assisted (see program.h). Pure.
#pragma once
#include "topo/plan/program.h"

namespace bps {

// The number of stages, with the first and the last.
size_t cpuAssistedStages(const LocalPlan& plan);
std::vector<Step> cpuAssistedSteps(const LocalProgram& program, size_t rank, uint64_t bytes, uint64_t unit);

}  // namespace bps
