// PollSet: what one turn of an event loop waits for, collected anew each turn from the objects that it drives.
//
// The loop is: every object adds its descriptors and its next point in time (watch), wait() sleeps, every object does
// what it can (step). With nothing to do in time it sleeps until a descriptor wakes it. Owned by the loop's thread.
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
  // Wakes when fd is readable, and with `write` also when it is writable.
  void add(int fd, bool write = false);
  // Only writable: a connect under way.
  void addWriter(int fd);
  void wakeAt(TimePoint at) { wake_ = std::min(wake_, at); }
  Status wait();
  // After wait(): whether something happened on fd, errors included.
  bool ready(int fd) const;

 private:
  std::vector<pollfd> polled_;
  std::vector<short> events_;  // by descriptor
  TimePoint wake_ = TimePoint::max();
};

}  // namespace bps
