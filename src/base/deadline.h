// Deadline: the point in time at which a wait gives up. Every wait in bps takes a Deadline.
// Deadline is a value type.
#pragma once
#include <algorithm>
#include <chrono>

namespace bps {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  static Deadline in(std::chrono::nanoseconds time) { return Deadline(Clock::now() + time); }
  static Deadline never() { return Deadline(Clock::time_point::max()); }

  bool passed() const { return at_ != Clock::time_point::max() && Clock::now() >= at_; }
  Clock::time_point at() const { return at_; }
  // Returns the remaining time in milliseconds, rounded up and at most `most`, as a timeout for
  // poll or epoll_wait.
  int leftMs(int most = 1000) const {
    if (at_ == Clock::time_point::max()) return most;
    auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()).count();
    return static_cast<int>(std::clamp<decltype(left)>(left, 0, most));
  }
  Deadline earlier(Deadline other) const { return Deadline(std::min(at_, other.at_)); }

 private:
  explicit Deadline(Clock::time_point at) : at_(at) {}
  Clock::time_point at_;
};

}  // namespace bps
