// What CUDA knows of a buffer, and what bps does with it.
//
//   unknown to CUDA         used by the CPU where it lies
//   host memory, pinned     the same; the address may be another for the CPU than the one given
//   managed memory          copied like device memory: it may lie on the device, and pages that the CPU touched would
//                           move to the host and, page by page, back
//   device memory           copied through pinned memory ("staged")
#pragma once
#include "src/base/status.h"
#include "src/cuda/device.h"

namespace bps::cuda {

struct MemoryKind {
  bool knownToCuda = false;       // to CUDA
  bool staged = false;            // to be copied
  int device = -1;                // of memory that is staged, but for managed memory, which has no place of its own
  const void* address = nullptr;  // for the CPU, or if staged for copies
};

// The device must be open. Reads nothing at the address.
Result<MemoryKind> memoryKindOf(const Device& device, const void* pointer);

}  // namespace bps::cuda
