// BufferRange: the addresses of a buffer.
#pragma once
#include <cstddef>
#include <cstdint>

namespace bps {

struct BufferRange {
  const void* begin = nullptr;
  size_t bytes = 0;

  bool overlaps(const BufferRange& other) const {
    return bytes > 0 && other.bytes > 0 && first() < other.first() + other.bytes && other.first() < first() + bytes;
  }
  bool covers(const BufferRange& other) const {
    return first() <= other.first() && other.first() + other.bytes <= first() + bytes;
  }

 private:
  uintptr_t first() const { return reinterpret_cast<uintptr_t>(begin); }
};

}  // namespace bps
