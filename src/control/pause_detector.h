// PauseDetector: notices that this process itself did not run for so long that its peers may have given it up.
//
// A process that was stopped (SIGSTOP, a suspended machine) finds its connections ended when it goes on. It is the
// culprit then, not the peers that ended them. Belongs to the thread of an event loop.
#pragma once
#include <algorithm>
#include <chrono>
#include <string>

#include "src/base/deadline.h"
#include "src/base/format.h"
#include "src/control/link/poll_set.h"

namespace bps {

class PauseDetector {
 public:
  using TimePoint = PollSet::TimePoint;

  explicit PauseDetector(uint32_t timeoutMs) : timeout_(timeoutMs) {}

  // The loop turns at least this often.
  void watch(PollSet& set) const { set.wakeAt(last_ + timeout_ / 10); }
  // Once per turn. Peers give up after half the time-out without a heartbeat, and there is one every tenth of it.
  void update(TimePoint now = Deadline::Clock::now()) {
    if (now - last_ >= timeout_ * 4 / 10) {
      pauseLength_ = now - last_;
      until_ = now + timeout_ / 2;
    }
    last_ = now;
  }
  // "was stopped for 12.3 s", for as long after it as what peers have done meanwhile may come to light; else empty.
  std::string text() const {
    if (last_ >= until_) return {};
    return fmt::format("was stopped for {:.1f} s", std::chrono::duration<double>(pauseLength_).count());
  }

 private:
  std::chrono::milliseconds timeout_;
  TimePoint last_ = Deadline::Clock::now(), until_ = TimePoint::min();
  Deadline::Clock::duration pauseLength_{};
};

}  // namespace bps
