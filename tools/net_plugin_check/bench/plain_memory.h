// PlainMemory: the plain transport for shared memory. The two sides copy into and out of a shared
// mapping by memcpy, one side at a time. Each side uses it on one thread.
#pragma once
#include <atomic>

#include "tools/net_plugin_check/side.h"

namespace bps::check {

class PlainMemory {
 public:
  // Creates a mapping with `bytes` bytes of data.
  static Result<PlainMemory> create(Side& side, size_t bytes);
  PlainMemory(PlainMemory&& other) noexcept : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_) {}
  PlainMemory& operator=(PlainMemory&&) = delete;
  ~PlainMemory();

  // Polls until this side has the token. This side may then access the data, and must afterwards
  // pass the token.
  Status waitForToken(Side& side, uint32_t token);
  void passToken(uint32_t token);
  uint8_t* data() const { return base_ + kHeaderBytes; }

 private:
  static constexpr size_t kHeaderBytes = 4096;
  PlainMemory(uint8_t* base, size_t bytes) : base_(base), bytes_(bytes) {}
  std::atomic<uint32_t>& token() const { return *reinterpret_cast<std::atomic<uint32_t>*>(base_); }

  uint8_t* base_;
  size_t bytes_;
};

}  // namespace bps::check
