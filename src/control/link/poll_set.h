// PollSet: the file descriptors and the wake-up time that one iteration of an event loop waits for.
//
// Every iteration of the event loop first clears the PollSet. Then each object adds its descriptors and its next
// deadline in its watch() function. wait() sleeps until a descriptor is ready or a deadline has come. Then each object
// does in its step() function what it can do without blocking. Only the thread of the event loop uses a PollSet.
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
  // Ends wait() when fd is readable. If `write` is true, wait() also ends when fd is writable.
  void add(int fd, bool write = false);
  // Ends wait() only when fd is writable; for a pending connect().
  void addWriter(int fd);
  void wakeAt(TimePoint at) { wake_ = std::min(wake_, at); }
  Status wait();
  // True if the last wait() found an event or an error on fd.
  bool ready(int fd) const;

 private:
  std::vector<pollfd> polled_;
  std::vector<short> events_;  // indexed by descriptor
  TimePoint wake_ = TimePoint::max();
};

}  // namespace bps
