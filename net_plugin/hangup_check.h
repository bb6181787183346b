// HangupCheck: when to look whether a connection's peer is still there. A look is a system call, and mostly for
// nothing.
#pragma once
#include <chrono>
#include <cstdint>

namespace bps::plugin {

class HangupCheck {
 public:
  // `interval`: between two looks of a polling caller.
  explicit HangupCheck(std::chrono::milliseconds interval = std::chrono::milliseconds(50))
      : intervalMs_(interval.count()) {}
  // True once in that time, by the cheapest clock.
  bool isDue();
  // A sleeping caller looks at every 16th sleep: a hang-up ends sleeps at once, so it is found after as many short
  // rounds, and the many idle connections of a thread cost its sleeps almost nothing.
  bool isDueBeforeSleep();

 private:
  int64_t intervalMs_;
  int64_t lastCheckMs_ = 0;
  unsigned sleeps_ = 0;
};

}  // namespace bps::plugin
