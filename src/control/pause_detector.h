// PauseDetector: detects that this process did not run for so long that its peers may have given it up.
//
// A process that was stopped (SIGSTOP, a suspended machine) finds its connections closed when it continues. It is then
// the culprit, not the peers that closed them. Belongs to the thread of its event loop.
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

  // Makes the loop run at least this often.
  void watch(PollSet& set) const { set.wakeAt(last_ + timeout_ / 10); }
  // Call once per iteration. Peers give up after half the timeout without a heartbeat, and send one every tenth of it.
  void update(TimePoint now = Deadline::Clock::now()) {
    if (now - last_ >= timeout_ * 4 / 10) {
      pauseLength_ = now - last_;
      until_ = now + timeout_ / 2;
    }
    last_ = now;
  }
  // "was stopped for 12.3 s" as long as failures may still be a consequence of the pause; else empty.
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
