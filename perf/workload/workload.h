// Workloads with real tensors: the gradients of known neural networks, and the tensors of a file.
#pragma once
#include <bps/bps.h>

#include <cstdint>
#include <string>
#include <vector>

#include "perf/app/runner.h"
#include "src/base/status.h"

namespace bps::perf {

struct WorkloadOptions {
  std::string model;  // a network's name, or empty
  bool backwardOrder = false;
  uint64_t bucketBytes = 0;           // size of the buckets of gradients; 0 means 25 MiB
  std::string tensors, out, compare;  // names of safetensors files; "%r" is replaced by the rank
  bpsDataType_t type = bpsFloat32;
  std::string typeName;
  bpsRedOp_t op = bpsSum;
  std::string opName;
  bool async = false;           // push and pull parameters: those of the model, or one of each size
  std::vector<uint64_t> sizes;  // bytes
  std::vector<double> pauses;   // of each rank between two steps, in seconds; the last one is for all further ranks
  int iterations = 20, warmup = 1;
  bool check = true;
};

// Runs the workload on this rank, prints on rank 0, and returns the program's exit code.
Result<int> runWorkload(const WorkloadOptions& options, Runner& runner);

}  // namespace bps::perf
