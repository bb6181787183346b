// PinnedCell: a word that streams wait for, and room for a scalar, in pinned memory.
//
// The memory is never freed: a stream may reach its wait after the owner of the cell is gone. The word only grows, also
// from one owner to the next, and may wrap around. So a wait that an earlier owner left in a stream stays satisfied.
// Owned between take() and recycle(). Threads: any.
#pragma once
#include <cstdint>

#include "src/cuda/device.h"

namespace bps::cuda {

struct PinnedCell {
  static constexpr size_t kBytes = 64, kScalarOffset = 16, kScalarBytes = 8;

  static Result<PinnedCell> take(const Device& device);
  // No stream or thread may write into the cell afterwards.
  static void recycle(const Device& device, const PinnedCell& cell);

  uint32_t* word() const { return reinterpret_cast<uint32_t*>(data); }
  uint8_t* scalar() const { return data + kScalarOffset; }

  uint8_t* data = nullptr;
  Address address = 0;  // of the word, for devices
};

}  // namespace bps::cuda
