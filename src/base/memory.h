// PageBuffer: holds page-aligned memory and frees it in the destructor. releaseFreedMemory():
// returns unused heap memory to the system.
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

// Returns memory that the process has freed from the C library's allocator to the system. Any
// thread may call this function.
inline void releaseFreedMemory() {
  // If another allocator replaces the C library's (a sanitizer's, jemalloc), malloc_trim is the
  // first call into the C library's allocator. That first call initializes the allocator, which is
  // not thread-safe.
  static Mutex mutex;
  MutexLock lock(mutex);
  ::malloc_trim(0);
}

}  // namespace bps
