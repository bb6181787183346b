// The two workloads that runWorkload() runs.
#pragma once
#include "perf/app/runner.h"
#include "perf/workload/workload.h"

namespace bps::perf {

// bps-perf's exit code when a result is wrong.
inline constexpr int kWrongResult = 7;

// All-reduces a neural network's gradients, first per tensor, then in buckets.
Result<int> runModel(const WorkloadOptions& options, Runner& runner);

// Pushes and pulls parameters asynchronously.
Result<int> runAsync(const WorkloadOptions& options, Runner& runner);

// All-reduces the tensors of a safetensors file.
Result<int> runTensors(const WorkloadOptions& options, Runner& runner);

}  // namespace bps::perf
