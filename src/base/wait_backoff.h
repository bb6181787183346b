// WaitBackoff: tells when to report a wait: after 2, 4, 8, ... seconds without progress. Progress starts the times
// anew. The caller checks regularly. A WaitBackoff belongs to one thread at a time.
#pragma once
#include <chrono>
#include <optional>

#include "src/base/deadline.h"

namespace bps {

class WaitBackoff {
 public:
  using TimePoint = Deadline::Clock::time_point;
  static constexpr std::chrono::seconds kFirst{2};

  // Call restart() after progress, or if nothing waits.
  void restart() { since_.reset(); }
  // Returns how long the wait has lasted, in whole seconds, if a report is due now. The first check after restart()
  // begins the wait.
  std::optional<std::chrono::seconds> check(TimePoint now) {
    if (!since_) {
      since_ = now;
      next_ = kFirst;
    }
    const auto waited = now - *since_;
    if (waited < next_) return {};
    while (next_ <= waited) next_ *= 2;
    return std::chrono::duration_cast<std::chrono::seconds>(waited);
  }
  // How long the wait has lasted; 0 if no wait has begun.
  std::chrono::nanoseconds waited(TimePoint now) const { return since_ ? now - *since_ : TimePoint::duration::zero(); }

 private:
  std::optional<TimePoint> since_;
  std::chrono::seconds next_ = kFirst;
};

}  // namespace bps
