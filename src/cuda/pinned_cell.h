// PinnedCell: a word that streams wait for, and room for a scalar, in memory that is never given back to the system: a
// stream may come to its wait when who made it wait is long gone.
//
// The word only ever grows, also from one owner to the next (it may wrap around). So a wait that an earlier owner has
// left behind in a stream, for a value that was reached, stays satisfied.
#pragma once
#include <cstdint>

#include "src/cuda/device.h"

namespace bps::cuda {

struct PinnedCell {
  static constexpr size_t kBytes = 64, kScalarOffset = 16, kScalarBytes = 8;

  static Result<PinnedCell> take(const Device& device);
  // Nobody writes into it any more.
  static void recycle(const Device& device, const PinnedCell& cell);

  uint32_t* word() const { return reinterpret_cast<uint32_t*>(data); }
  uint8_t* scalar() const { return data + kScalarOffset; }

  uint8_t* data = nullptr;
  Address address = 0;  // of the word, for devices
};

}  // namespace bps::cuda
