// CommPriority: the priority of one communicator on this rank (bpsCommSetPriority). Any thread may read and set it.
#pragma once
#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "src/comm/priority/priority_board.h"

namespace bps {

class CommPriority {
 public:
  explicit CommPriority(PriorityBoard& board = PriorityBoard::ofProcess()) : board_(board) {}

  // `priority` is from 0 to PriorityBoard::kMaxPriority.
  void set(int priority) {
    if (priority > 0) board_.setInUse();
    priority_.store(priority, std::memory_order_relaxed);
  }
  // From now on, this communicator has the priority of `parent`. Call this function once at most.
  void follow(std::shared_ptr<const CommPriority> parent) {
    parent_ = std::move(parent);
    source_.store(parent_.get(), std::memory_order_release);
  }
  int get() const {
    const CommPriority* source = source_.load(std::memory_order_acquire);
    return (source != nullptr ? source : this)->priority_.load(std::memory_order_relaxed);
  }

  // How long lower priorities wait after data of this communicator has moved.
  void setHoldTime(std::chrono::microseconds time) { holdTime_.store(time.count(), std::memory_order_relaxed); }
  std::chrono::microseconds holdTime() const {
    return std::chrono::microseconds(holdTime_.load(std::memory_order_relaxed));
  }
  PriorityBoard& board() const { return board_; }

 private:
  PriorityBoard& board_;
  std::atomic<int> priority_{0};
  std::atomic<std::chrono::microseconds::rep> holdTime_{0};
  std::shared_ptr<const CommPriority> parent_;        // keeps the target of source_
  std::atomic<const CommPriority*> source_{nullptr};  // null if this communicator has a priority of its own
};

}  // namespace bps
