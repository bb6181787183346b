// HangupCheck: decides when a connection checks whether its peer has hung up. Each check costs a
// system call, so HangupCheck limits the number of checks. A HangupCheck is used by the thread that
// uses the connection.
#pragma once
#include <chrono>
#include <cstdint>

namespace bps::plugin {

class HangupCheck {
 public:
  // `interval` is the time between two checks while the caller polls.
  explicit HangupCheck(std::chrono::milliseconds interval = std::chrono::milliseconds(50))
      : intervalMs_(interval.count()) {}
  // Returns true at most once per interval. Reads the coarse clock, which needs no system call.
  bool isDue();
  // Returns true before every 16th sleep, so idle connections cost almost no system calls. A
  // hang-up ends every sleep immediately. The connection therefore finds a hang-up after at most 16
  // short sleeps.
  bool isDueBeforeSleep();

 private:
  int64_t intervalMs_;
  int64_t lastCheckMs_ = 0;
  unsigned sleeps_ = 0;
};

}  // namespace bps::plugin
