// DelayQueue: network frames that wait for their due time.
//
// The caller writes a frame into room() and then calls push(), so frames are not copied. Frames leave in the order in
// which they came, so their due times must not decrease. The queue owns the memory, takes it in blocks, and reuses the
// blocks. It takes at most `maxBytes`. Not thread-safe.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

namespace bps::perf {

// A segment of up to 64 KiB, with its Ethernet header and its virtio-net header.
constexpr size_t kMaxFrame = size_t{66} << 10;

struct Frame {
  std::span<const uint8_t> bytes;
  size_t link = 0;
  std::chrono::steady_clock::time_point due;
};

class DelayQueue {
 public:
  static constexpr size_t kBlock = size_t{1} << 20;

  explicit DelayQueue(size_t maxBytes) : maxBlocks_(maxBytes / kBlock) {}

  // Returns memory for one frame, kMaxFrame bytes. Returns an empty span if the queue is full.
  std::span<uint8_t> room();
  // Appends the first `bytes` bytes of room() as a frame.
  void push(size_t bytes, size_t link, std::chrono::steady_clock::time_point due);

  bool empty() const { return frames_.empty(); }
  // The first frame. The queue must not be empty. The bytes are valid until pop().
  const Frame& front() const { return frames_.front(); }
  void pop();

 private:
  struct Block {
    std::unique_ptr<uint8_t[]> memory;
    size_t used = 0;    // bytes
    size_t frames = 0;  // frames that are still queued
  };

  const size_t maxBlocks_;
  std::deque<Frame> frames_;
  std::deque<Block> blocks_;  // the last block takes new frames
  std::vector<Block> spare_;
};

}  // namespace bps::perf
