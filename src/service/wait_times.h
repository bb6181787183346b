// WaitTimes: for how long a SumService has waited for the contribution of each machine.
//
// A service waits for a machine while another machine has contributed to the oldest round and this machine has not. The
// time counts for every machine that is missing, so the sum over the machines may exceed the time that has passed.
// WaitTimes belongs to a SumService and runs on the thread of that service.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#include "src/base/deadline.h"

namespace bps {

class WaitTimes {
 public:
  using Clock = Deadline::Clock;

  explicit WaitTimes(size_t machines) : waited_(machines), missing_(machines) {}

  // Call update() whenever `contributed` may return another value for a machine than at the last call.
  template <class Contributed>
  void update(const Contributed& contributed, Clock::time_point now = Clock::now()) {
    bool present = false;
    for (size_t m = 0; m < waited_.size(); ++m) {
      waited_[m] = waited(m, now);
      missing_[m] = !contributed(m);
      present = present || !missing_[m];
    }
    waiting_ = present;
    since_ = now;
  }
  // Includes a wait that has not ended.
  std::chrono::nanoseconds waited(size_t machine, Clock::time_point now = Clock::now()) const {
    const bool waits = waiting_ && missing_[machine];
    return waited_[machine] + (waits ? std::max(now - since_, Clock::duration{}) : Clock::duration{});
  }

 private:
  std::vector<std::chrono::nanoseconds> waited_;  // until since_
  std::vector<bool> missing_;                     // at since_
  bool waiting_ = false;                          // a machine had contributed at since_
  Clock::time_point since_{};
};

}  // namespace bps
