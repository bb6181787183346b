// GpuLocality: which GPUs of its machine a GPU combines buffers with, by the machine's plan (topo/plan/planner.h).
// A value that the caller owns. Threads: any.
#pragma once
#include <string>

#include "src/base/env.h"

namespace bps::nccl {

struct GpuLocality {
  // The GPU's PCIe switch if the plan combines buffers under each switch. Empty if it combines those of the whole
  // machine: over NVLink, or because the topology has no such GPU.
  std::string switchName;
  // The plan combines the machine's buffers at some GPUs only, and this is one of them.
  bool root = false;
};

GpuLocality gpuLocalityOf(int device, const Env& env);

}  // namespace bps::nccl
