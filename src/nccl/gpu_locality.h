// GpuLocality: tells with which GPUs of its machine a GPU combines buffers, according to the
// machine plan (topo/plan/planner.h). GpuLocality is a value type. Any thread may call these
// functions.
#pragma once
#include <string>

#include "src/base/env.h"

namespace bps::nccl {

struct GpuLocality {
  // The GPU's PCIe switch, if the machine plan combines buffers under each switch. `switchName` is
  // empty if the plan combines the buffers of the whole machine over NVLink, or if the topology
  // does not contain the GPU.
  std::string switchName;
  // True if the machine plan combines buffers only at some GPUs, the roots, and this GPU is a root.
  bool root = false;
  bool addsAlongRing = false;  // the machine plan adds along a ring of GPUs and rounds at every step
};

GpuLocality gpuLocalityOf(int device, const Env& env);

}  // namespace bps::nccl
