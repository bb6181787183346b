// ChunkGate: lets the chunks of a communicator start, or withholds them while a communicator of this process with a
// higher priority moves data. The data plane sees a withheld chunk as a contribution that is not complete yet
// (ChunkBuffers::ready()), so all its lanes and its exchange path keep their order.
//
// Only the start of chunks is withheld. Chunks in flight go on, and so does the summation service, because other
// machines wait for it. Each machine decides for itself, so two machines may withhold different communicators. This
// cannot end in a deadlock, for two reasons. A communicator whose calls do not move withholds nothing (PriorityBoard).
// And in each `longestPause`, the gate opens for one step of the data plane, in which every lane may start a chunk. So
// the calls of a withheld communicator still progress, and no time limit for a peer passes.
//
// Only the holder of the progress lock (progress_engine.h) uses a ChunkGate.
#pragma once
#include <algorithm>
#include <chrono>
#include <optional>

#include "src/comm/call/chunk_buffers.h"
#include "src/comm/priority/comm_priority.h"

namespace bps {

class ChunkGate final : public ChunkBuffers {
 public:
  using Clock = PriorityBoard::Clock;
  // How long a withheld communicator may pause: at most kLongestPause, and a fraction of the time after which a rank
  // reports that it waits for a peer.
  static std::chrono::milliseconds longestPause(std::chrono::milliseconds waitReportTime) {
    return std::min(kLongestPause, waitReportTime / 4);
  }

  ChunkGate(ChunkBuffers& buffers, const CommPriority& priority, std::chrono::milliseconds longestPause)
      : buffers_(buffers), priority_(priority), longestPause_(longestPause) {}

  // Call beginStep() before each step of the data plane. It decides whether chunks may start in this step.
  void beginStep() {
    refused_ = false;
    if (!priority_.board().inUse()) return;
    decide(Clock::now());
  }
  // Call endStep() after a step if mayHold(). `busy` is true if the communicator has calls in flight.
  bool mayHold() const { return holding_ > 0 || (priority_.board().inUse() && priority_.get() > 0); }
  void endStep(bool moved, bool busy);
  // Withholds no other communicator any more. The communicator has ended.
  void end() { endStep(false, false); }
  // True if the last step has withheld a chunk. No event tells when the chunk may start.
  bool withholds() const { return refused_; }

  bool ready(const Collective& call, size_t index) const override {
    if (!buffers_.ready(call, index)) return false;
    if (!open_) refused_ = true;
    return open_;
  }
  ChunkView view(const Collective& call, size_t index) const override { return buffers_.view(call, index); }
  void finished(Collective& call, size_t index) override { buffers_.finished(call, index); }

 private:
  static constexpr std::chrono::milliseconds kLongestPause{250};
  void decide(Clock::time_point now);

  ChunkBuffers& buffers_;
  const CommPriority& priority_;
  const std::chrono::milliseconds longestPause_;
  bool open_ = true;
  mutable bool refused_ = false;                  // ready() has withheld a chunk since beginStep()
  std::optional<Clock::time_point> pausedSince_;  // the start of the pause or, if later, the last step that was open
  int holding_ = 0;                               // the priority for which this communicator has called hold(), or 0
};

}  // namespace bps
