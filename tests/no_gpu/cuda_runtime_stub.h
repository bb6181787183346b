// A double of the CUDA runtime for a libnccl that has it linked in: "device" memory is host memory, streams and events
// do nothing, kernels cannot run. It gets a communicator of NCCL as far as its network goes, on a machine without GPU.
#pragma once
#include <string>

#include "src/base/status.h"

namespace bps::no_gpu {

// Puts the double's functions in the place of the runtime's in the loaded library. x86-64 only.
Status replaceCudaRuntime(void* library);

}  // namespace bps::no_gpu
