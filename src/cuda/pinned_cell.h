// PinnedCell: a word that streams wait for, and room for a scalar, in pinned memory.
//
// The memory is never freed, because a stream may reach its wait after the user of the cell is
// gone. The word only grows, even from one user of the cell to the next, and may wrap around. A
// wait that an earlier user left in a stream therefore stays satisfied. A cell belongs to the
// caller between take() and recycle(). Any thread may call these functions.
#pragma once
#include <cstdint>

#include "src/cuda/device.h"

namespace bps::cuda {

struct PinnedCell {
  static constexpr size_t kBytes = 64, kScalarOffset = 16, kScalarBytes = 8;

  static Result<PinnedCell> take(const Device& device);
  // Makes the cell available for reuse. No stream or thread may write into the cell afterwards.
  static void recycle(const Device& device, const PinnedCell& cell);

  uint32_t* word() const { return reinterpret_cast<uint32_t*>(data); }
  uint8_t* scalar() const { return data + kScalarOffset; }

  uint8_t* data = nullptr;
  Address address = 0;  // device address of the word
};

}  // namespace bps::cuda
