// SpinBudget: decides whether a waiting thread polls again or sleeps. SpinBudget learns from the
// length of recent waits.
//
// A wake-up takes tens of microseconds, so a thread polls for about that long before it sleeps. If
// recent waits were much longer, as on slow links, the thread sleeps at once. Polling would only
// take CPU time from the threads for which the polling thread waits.
//
// One thread at a time uses a SpinBudget.
#pragma once
#include <algorithm>
#include <chrono>

namespace bps {

class SpinBudget {
 public:
  using Clock = std::chrono::steady_clock;
  using Now = Clock::time_point (*)();
  static Clock::time_point systemNow() { return Clock::now(); }
  static constexpr std::chrono::nanoseconds kDefault = std::chrono::microseconds(50);

  // If the mean wait exceeds twice `budget`, the thread does not poll. A wait counts as at most eight times `budget`,
  // so that a few short waits enable polling again.
  explicit SpinBudget(std::chrono::nanoseconds budget = kDefault, Now now = systemNow) : budget_(budget), now_(now) {}

  // Call onProgress() when the thread has made progress. This ends the current wait, if any.
  void onProgress() {
    if (polls_ == 0) return;
    polls_ = 0;
    mean_ += (std::min<std::chrono::nanoseconds>(now_() - since_, 8 * budget_) - mean_) / kAveragedWaits;
  }
  // Ends the current wait without counting it.
  void discardWait() { polls_ = 0; }
  // Call consume() after each poll that found nothing. Returns false if the thread should sleep
  // now.
  bool consume() {
    const unsigned poll = polls_++;
    if (poll == 0) since_ = now_();
    if (mean_ > 2 * budget_) return false;
    return poll % kPollsPerClock != 0 || now_() - since_ < budget_;
  }

 private:
  static constexpr int kAveragedWaits = 8;
  static constexpr unsigned kPollsPerClock = 4;  // number of polls per reading of the clock

  std::chrono::nanoseconds budget_;
  Now now_;
  unsigned polls_ = 0;  // polls in the current wait
  Clock::time_point since_;
  std::chrono::nanoseconds mean_{0};
};

}  // namespace bps
