// SpinBudget: whether a thread that waits polls once more or sleeps, learned from how long its recent waits took.
//
// A wake-up takes tens of microseconds, so a thread polls that long before it sleeps. If recent waits were much longer,
// as on slow links, polling would only take processor time from the threads that it waits for: then it sleeps at once.
//
// Belongs to one thread at a time.
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

  // A mean wait of more than twice `budget` ends polling. A wait counts as at most eight times `budget`, so that short
  // waits soon restore it.
  explicit SpinBudget(std::chrono::nanoseconds budget = kDefault, Now now = systemNow) : budget_(budget), now_(now) {}

  // Something moved: the wait, if there was one, is over.
  void onProgress() {
    if (polls_ == 0) return;
    polls_ = 0;
    mean_ += (std::min<std::chrono::nanoseconds>(now_() - since_, 8 * budget_) - mean_) / kAveragedWaits;
  }
  // The present wait is not counted.
  void discardWait() { polls_ = 0; }
  // After each poll that found nothing. False: sleep.
  bool consume() {
    const unsigned poll = polls_++;
    if (poll == 0) since_ = now_();
    if (mean_ > 2 * budget_) return false;
    return poll % kPollsPerClock != 0 || now_() - since_ < budget_;
  }

 private:
  static constexpr int kAveragedWaits = 8;
  static constexpr unsigned kPollsPerClock = 4;  // the clock is read once in so many polls

  std::chrono::nanoseconds budget_;
  Now now_;
  unsigned polls_ = 0;  // of the present wait
  Clock::time_point since_;
  std::chrono::nanoseconds mean_{0};
};

}  // namespace bps
