// HangupCheck: decides when a connection checks whether its peer has hung up. Each check costs a system call, so it
// limits their number. Used by the thread that uses the connection.
#pragma once
#include <chrono>
#include <cstdint>

namespace bps::plugin {

class HangupCheck {
 public:
  // `interval` is the time between two checks while the caller polls.
  explicit HangupCheck(std::chrono::milliseconds interval = std::chrono::milliseconds(50))
      : intervalMs_(interval.count()) {}
  // Returns true once per interval. Reads the coarse clock, which needs no system call.
  bool isDue();
  // Returns true before every 16th sleep. A hang-up ends each sleep at once, so it is found after at most 16 short
  // sleeps; idle connections cost almost no system calls.
  bool isDueBeforeSleep();

 private:
  int64_t intervalMs_;
  int64_t lastCheckMs_ = 0;
  unsigned sleeps_ = 0;
};

}  // namespace bps::plugin
