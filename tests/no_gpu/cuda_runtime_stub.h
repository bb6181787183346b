// A stub of the CUDA runtime, for a libnccl that contains the CUDA runtime. "Device" memory is host
// memory, streams and events do nothing, and kernels cannot run. On a machine without a GPU, the
// stub lets NCCL create a communicator together with its network connections.
#pragma once
#include <string>

#include "src/base/status.h"

namespace bps::no_gpu {

// Replaces the functions of the CUDA runtime in the loaded `library` by the functions of the stub.
// Works on x86-64 only.
Status replaceCudaRuntime(void* library);

}  // namespace bps::no_gpu
