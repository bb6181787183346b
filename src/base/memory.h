// PageBuffer: page-aligned memory that frees itself. And memory that is freed, given back to the machine.
#pragma once
#include <malloc.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "src/base/mutex.h"
#include "src/base/status.h"

namespace bps {

inline constexpr size_t kPageBytes = 4096;

constexpr size_t roundUp(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

class PageBuffer {
 public:
  PageBuffer() = default;
  static Result<PageBuffer> create(size_t bytes) {
    PageBuffer buffer;
    void* memory = std::aligned_alloc(kPageBytes, roundUp(bytes == 0 ? 1 : bytes, kPageBytes));
    if (memory == nullptr) return Status(Code::kSystem, "out of memory: " + std::to_string(bytes) + " bytes");
    buffer.memory_.reset(static_cast<uint8_t*>(memory));
    buffer.bytes_ = bytes;
    return buffer;
  }
  uint8_t* data() const { return memory_.get(); }
  size_t size() const { return bytes_; }

 private:
  struct Free {
    void operator()(uint8_t* memory) const { std::free(memory); }
  };
  std::unique_ptr<uint8_t, Free> memory_;
  size_t bytes_ = 0;
};

// What the process has freed belongs to the machine again, not to its allocator. From any thread.
inline void releaseFreedMemory() {
  // Where another allocator stands in for the C library's (a sanitizer's, jemalloc), this is the first call that the
  // library's own gets. It then sets itself up, and two threads may not do so at once.
  static Mutex mutex;
  MutexLock lock(mutex);
  ::malloc_trim(0);
}

}  // namespace bps
