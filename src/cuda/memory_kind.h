// MemoryKind: the kind of a buffer's memory, and how bps accesses it. Any thread may call these
// functions.
//
//   unknown to CUDA         The CPU uses the buffer in place.
//   pinned host memory      The CPU uses the buffer in place, at an address that may differ.
//   managed memory          bps copies the buffer like device memory, because device pages that the CPU
//                           touches would move to the host and back.
//   device memory           bps copies the buffer through pinned memory ("staged"). The buffer may lie on any device,
//                           because the driver knows the device of every address.
#pragma once
#include "src/base/status.h"
#include "src/cuda/device.h"

namespace bps::cuda {

struct MemoryKind {
  bool knownToCuda = false;
  bool staged = false;            // bps copies the buffer through pinned memory
  const void* address = nullptr;  // for access by the CPU or, if staged, for copies
};

// Does not read the memory at `pointer`.
Result<MemoryKind> memoryKindOf(const Device& device, const void* pointer);

}  // namespace bps::cuda
