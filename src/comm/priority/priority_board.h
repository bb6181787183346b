// PriorityBoard: what the communicators of one process know of each other's priorities. A communicator whose calls move
// data holds back the communicators with lower priorities until a given time, and extends this time while data moves.
// So a communicator that waits for a peer, fails or ends soon holds nobody back, without any further step.
//
// Threads: any thread may call any method. All accesses are relaxed: a thread that sees a change late starts a few more
// chunks, or waits a little longer.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace bps {

class PriorityBoard {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int kMaxPriority = 7;

  static PriorityBoard& ofProcess();

  // True if a communicator of this process has ever had a priority above 0. Without one, this load is all that
  // priorities cost.
  bool inUse() const { return inUse_.load(std::memory_order_relaxed); }
  void setInUse() { inUse_.store(true, std::memory_order_relaxed); }

  // Holds back the communicators below `priority` until the given time.
  void hold(int priority, Clock::time_point until) { timeOf(priority).store(ticks(until), std::memory_order_relaxed); }
  // Ends hold(). If a second communicator with this priority moves data, it calls hold() again.
  void release(int priority) { timeOf(priority).store(INT64_MIN, std::memory_order_relaxed); }
  // True if a communicator with a higher priority holds back those with `priority`.
  bool heldBack(int priority, Clock::time_point now) const {
    for (auto level = static_cast<size_t>(priority) + 1; level < until_.size(); ++level)
      if (until_[level].load(std::memory_order_relaxed) > ticks(now)) return true;
    return false;
  }

 private:
  static int64_t ticks(Clock::time_point time) { return time.time_since_epoch().count(); }
  std::atomic<int64_t>& timeOf(int priority) { return until_[static_cast<size_t>(priority)]; }

  std::atomic<bool> inUse_{false};
  std::array<std::atomic<int64_t>, kMaxPriority + 1> until_{};  // by priority
};

}  // namespace bps
