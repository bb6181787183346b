// Which GPUs of its machine one works with before and after the network, as the machine's plan says.
#pragma once
#include <string>

#include "src/base/env.h"

namespace bps::nccl {

struct GpuLocality {
  // The switch under which the GPU is, where the plan is to combine buffers under each switch, and empty where it is to
  // combine all of the machine: over NVLink, or because nothing is known of the GPU.
  std::string switchName;
  // The plan is to combine all of the machine at some GPUs only, and this is one of them.
  bool root = false;
};

GpuLocality gpuLocalityOf(int device, const Env& env);

}  // namespace bps::nccl
