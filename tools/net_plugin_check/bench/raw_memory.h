// What shared memory is measured against: memcpy into a mapping of both sides and out of it, in turns.
#pragma once
#include <atomic>

#include "tools/net_plugin_check/side.h"

namespace bps::check {

class RawMemory {
 public:
  // A mapping with room for `bytes`.
  static Result<RawMemory> create(Side& side, size_t bytes);
  RawMemory(RawMemory&& other) noexcept : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_) {}
  RawMemory& operator=(RawMemory&&) = delete;
  ~RawMemory();

  // Waits, without pause, until it is this side's turn; then it may copy, and hands the turn on.
  Status awaitTurn(Side& side, uint32_t turn);
  void passTurn(uint32_t turn);
  uint8_t* data() const { return base_ + kHeaderBytes; }

 private:
  static constexpr size_t kHeaderBytes = 4096;
  RawMemory(uint8_t* base, size_t bytes) : base_(base), bytes_(bytes) {}
  std::atomic<uint32_t>& turn() const { return *reinterpret_cast<std::atomic<uint32_t>*>(base_); }

  uint8_t* base_;
  size_t bytes_;
};

}  // namespace bps::check
