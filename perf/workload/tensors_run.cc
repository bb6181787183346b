#include "perf/workload/runs.h"
namespace bps::perf {
Result<int> runTensors(const WorkloadOptions&, Runner&) { return Status(Code::kInternal, "--tensors: not yet"); }
}  // namespace bps::perf
