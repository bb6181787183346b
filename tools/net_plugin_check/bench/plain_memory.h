// What shared memory is measured against: memcpy into a mapping of both sides and out of it, in turns.
#pragma once
#include <atomic>

#include "tools/net_plugin_check/side.h"

namespace bps::check {

class PlainMemory {
 public:
  // A mapping with room for `bytes`.
  static Result<PlainMemory> create(Side& side, size_t bytes);
  PlainMemory(PlainMemory&& other) noexcept : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_) {}
  PlainMemory& operator=(PlainMemory&&) = delete;
  ~PlainMemory();

  // Waits, without pause, until it is this side's turn; then it may copy, and hands the turn on.
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
