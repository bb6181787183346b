#include "src/comm/priority/chunk_gate.h"

#include <utility>

namespace bps {

void ChunkGate::decide(Clock::time_point now) {
  if (!priority_.board().heldBack(priority_.get(), now)) {
    open_ = true;
    pausedSince_.reset();
    return;
  }
  if (!pausedSince_) pausedSince_ = now;
  open_ = now - *pausedSince_ >= longestPause_;
  if (open_) pausedSince_ = now;
}

void ChunkGate::endStep(bool moved, bool busy) {
  const int priority = busy ? priority_.get() : 0;
  if (holding_ > 0 && priority != holding_) priority_.board().release(holding_);
  if (priority > 0 && moved) priority_.board().hold(priority, Clock::now() + priority_.holdTime());
  holding_ = priority;
}

}  // namespace bps
