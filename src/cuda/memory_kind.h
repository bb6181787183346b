// MemoryKind: the kind of a buffer, and how bps reaches it. Threads: any.
//
//   unknown to CUDA         the CPU uses it in place
//   host memory, pinned     the same; the CPU's address may differ from the given one
//   managed memory          copied like device memory: pages on the device that the CPU touches move to the host and
//                           back
//   device memory           copied through pinned memory ("staged")
#pragma once
#include "src/base/status.h"
#include "src/cuda/device.h"

namespace bps::cuda {

struct MemoryKind {
  bool knownToCuda = false;
  bool staged = false;            // copied through pinned memory
  int device = -1;                // of device memory
  const void* address = nullptr;  // for the CPU; if staged, for copies
};

// Does not read at the address.
Result<MemoryKind> memoryKindOf(const Device& device, const void* pointer);

}  // namespace bps::cuda
