#include "perf/delay_line/delay_queue.h"

#include <utility>

namespace bps::perf {

std::span<uint8_t> DelayQueue::room() {
  if (blocks_.empty() || blocks_.back().used + kMaxFrame > kBlock) {
    if (blocks_.size() >= maxBlocks_) return {};
    if (spare_.empty()) spare_.push_back({std::make_unique_for_overwrite<uint8_t[]>(kBlock)});
    blocks_.push_back(std::move(spare_.back()));
    spare_.pop_back();
  }
  return {blocks_.back().memory.get() + blocks_.back().used, kMaxFrame};
}

void DelayQueue::push(size_t bytes, size_t link, std::chrono::steady_clock::time_point due) {
  Block& block = blocks_.back();
  frames_.push_back({{block.memory.get() + block.used, bytes}, link, due});
  block.used += bytes;
  ++block.frames;
}

void DelayQueue::pop() {
  frames_.pop_front();
  --blocks_.front().frames;
  // The last block may be empty, because room() has begun it. It stays.
  while (blocks_.size() > 1 && blocks_.front().frames == 0) {
    blocks_.front().used = 0;
    spare_.push_back(std::move(blocks_.front()));
    blocks_.pop_front();
  }
  if (blocks_.front().frames == 0) blocks_.front().used = 0;
}

}  // namespace bps::perf
