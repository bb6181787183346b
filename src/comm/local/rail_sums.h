// RailSums: tracks the chunks that this rank carries over the network as the driver of a rail
// (plan/rails.h). A chunk is awaited until the machine's sum of the chunk is complete. The chunk is
// then ready to send, and later received. A received chunk is published when all earlier chunks are
// received, too.
//
// Only the holder of this rank's progress lock (progress_engine.h) calls these functions.
#pragma once
#include <algorithm>
#include <cstdint>
#include <deque>
#include <utility>

#include "src/comm/local/local_progress.h"

namespace bps {

class RailSums {
 public:
  explicit RailSums(LocalProgress& progress) : progress_(progress) {}

  // Chunks below `end` have been submitted. If `carried` is true, this rail carries the chunks from
  // `first` to `end` - 1.
  void submit(uint64_t first, uint64_t end, bool carried) {
    submitted_ = end;
    for (uint64_t chunk = first; carried && chunk < end; ++chunk) {
      awaited_.push_back(chunk);
      unpublished_.emplace_back(chunk, false);
    }
    storeAwaited();
  }
  // Returns whether sums have become ready.
  bool takeReady() {
    bool moved = false;
    for (; progress_.sumIsReady(); moved = true) {
      readyBelow_ = awaited_.front() + 1;
      awaited_.pop_front();
      storeAwaited();
    }
    return moved;
  }
  bool isReady(uint64_t chunk) const { return chunk < readyBelow_; }

  // Call received() when the final sum of the chunk has arrived. Only sums on the same lane arrive
  // in order.
  void received(uint64_t chunk) {
    std::lower_bound(unpublished_.begin(), unpublished_.end(), std::pair(chunk, false))->second = true;
    publish();
  }
  // Publishes received sums in the order of the chunk numbers.
  void publish() {
    while (!unpublished_.empty() && unpublished_.front().second) unpublished_.pop_front();
    const uint64_t upTo = unpublished_.empty() ? submitted_ : unpublished_.front().first;
    if (progress_.published() == upTo) return;
    progress_.setPublished(upTo);
    progress_.wakeOthers();
  }

 private:
  void storeAwaited() { progress_.setAwaited(awaited_.empty() ? 0 : awaited_.front() + 1); }

  LocalProgress& progress_;
  uint64_t submitted_ = 0;
  std::deque<uint64_t> awaited_;
  std::deque<std::pair<uint64_t, bool>> unpublished_;  // true if the sum is received but an earlier sum is missing
  uint64_t readyBelow_ = 0;
};

}  // namespace bps
