// LookPace: when to look whether the peer has hung up on the socket that stands beside a connection, whose data does
// not go through that socket. A look is a system call, and mostly for nothing.
#pragma once
#include <cstdint>

namespace bps::plugin {

class LookPace {
 public:
  // A polling caller looks every 50 ms, by the cheapest clock.
  bool isDue();
  // A sleeping caller looks at every 16th sleep: a hang-up ends sleeps at once, so it is found after as many short
  // rounds, and the many idle connections of a thread cost its sleeps almost nothing.
  bool isDueBeforeSleep();

 private:
  int64_t lookedAtMs_ = 0;
  unsigned sleeps_ = 0;
};

}  // namespace bps::plugin
