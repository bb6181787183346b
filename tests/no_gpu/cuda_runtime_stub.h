// A stub of the CUDA runtime for a libnccl that links it statically. "Device" memory is host memory, streams and events
// do nothing, and kernels cannot run. On a machine without a GPU, it lets NCCL create a communicator including its
// network.
#pragma once
#include <string>

#include "src/base/status.h"

namespace bps::no_gpu {

// Replaces the runtime's functions in the loaded library by the stub's. x86-64 only.
Status replaceCudaRuntime(void* library);

}  // namespace bps::no_gpu
