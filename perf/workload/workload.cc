#include "perf/workload/workload.h"

#include "perf/workload/runs.h"

namespace bps::perf {

Result<int> runWorkload(const WorkloadOptions& options, Runner& runner) {
  const bool tensors = !options.tensors.empty();
  if (tensors && !options.model.empty()) return Status(Code::kInvalidArgument, "--model and --tensors exclude another");
  if (!tensors && !(options.out.empty() && options.compare.empty())) {
    return Status(Code::kInvalidArgument, "--out and --compare go with --tensors");
  }
  if (tensors && options.backwardOrder) return Status(Code::kInvalidArgument, "--backward-order goes with --model");
  if (tensors && options.bucketBytes > 0) return Status(Code::kInvalidArgument, "--bucket-bytes goes with --model");
  if (options.async) return runAsync(options, runner);
  return tensors ? runTensors(options, runner) : runModel(options, runner);
}

}  // namespace bps::perf
