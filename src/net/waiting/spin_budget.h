// SpinBudget: whether a thread that waits should poll once more or sleep, learned from how long its waits took lately.
//
// To be woken takes tens of microseconds, so a thread polls for as long first. Where what it waits for usually comes
// much later than that, as on slow links, it would only take processor time from those who bring it: then it sleeps at
// once. A caller that has nothing else to do, on a CPU that no other rank needs, polls for longer: a wake-up costs it
// more than the time it takes, for the CPU has gone to sleep, too. Belongs to one thread at a time.
#pragma once
#include <algorithm>
#include <chrono>

namespace bps::net {

template <class Clock = std::chrono::steady_clock>
class SpinBudget {
 public:
  static constexpr std::chrono::nanoseconds kMax = std::chrono::microseconds(50);
  static constexpr std::chrono::nanoseconds kMaxUncontended = 4 * kMax;

  // Waits of twice as long and more are slept through from the start. Any of more than eight times as long counts as
  // that.
  explicit SpinBudget(std::chrono::nanoseconds most = kMax) : most_(most) {}

  // Something moved: the wait, if there was one, is over.
  void onProgress() {
    if (loops_ == 0) return;
    loops_ = 0;
    mean_ += (std::min<std::chrono::nanoseconds>(Clock::now() - since_, 8 * most_) - mean_) / kAveragedWaits;
  }
  // The wait under way says nothing about the next ones.
  void discardWait() { loops_ = 0; }
  // To be asked once per loop in which nothing moved. False: sleep.
  bool consume() {
    const unsigned loop = loops_++;
    if (loop == 0) since_ = Clock::now();
    if (mean_ > 2 * most_) return false;
    return loop % kLoopsPerClock != 0 || Clock::now() - since_ < most_;
  }

 private:
  static constexpr int kAveragedWaits = 8;  // waits
  static constexpr unsigned kLoopsPerClock = 4;

  std::chrono::nanoseconds most_;
  unsigned loops_ = 0;  // of the wait under way
  typename Clock::time_point since_;
  std::chrono::nanoseconds mean_{0};
};

}  // namespace bps::net
