// PollSet: the file descriptors and the wake-up time that one iteration of an event loop waits for.
//
// Each iteration clears the set. Every object adds its descriptors and its next deadline (watch), wait() sleeps, and
// every object does what it can without blocking (step). Without input or a deadline the loop sleeps. The loop's thread
// owns it.
#pragma once
#include <poll.h>

#include <vector>

#include "src/base/deadline.h"
#include "src/base/status.h"

namespace bps {

class PollSet {
 public:
  using TimePoint = Deadline::Clock::time_point;

  void clear();
  // Wakes when fd is readable; with `write` also when it is writable.
  void add(int fd, bool write = false);
  // Wakes when fd is writable only, for a pending connect.
  void addWriter(int fd);
  void wakeAt(TimePoint at) { wake_ = std::min(wake_, at); }
  Status wait();
  // After wait(): true if fd has an event or an error.
  bool ready(int fd) const;

 private:
  std::vector<pollfd> polled_;
  std::vector<short> events_;  // indexed by descriptor
  TimePoint wake_ = TimePoint::max();
};

}  // namespace bps
