// BufferRange: the addresses of a buffer. CallBuffers: the buffers of a call.
#pragma once
#include <algorithm>
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
  // Grows this range so that it also covers `other`.
  void extend(const BufferRange& other) {
    if (other.bytes == 0) return;
    if (bytes == 0) {
      *this = other;
      return;
    }
    const uintptr_t end = std::max(first() + bytes, other.first() + other.bytes);
    if (other.first() < first()) begin = other.begin;
    bytes = end - first();
  }

 private:
  uintptr_t first() const { return reinterpret_cast<uintptr_t>(begin); }
};

struct CallBuffers {
  BufferRange reads, writes;

  // True if one of the calls writes memory that the other call reads or writes.
  bool conflicts(const CallBuffers& other) const {
    return writes.overlaps(other.reads) || writes.overlaps(other.writes) || reads.overlaps(other.writes);
  }
  void extend(const CallBuffers& other) {
    reads.extend(other.reads);
    writes.extend(other.writes);
  }
};

}  // namespace bps
