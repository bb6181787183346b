// PauseDetector: detects that this process was stopped for so long that its peers may have given it up.
//
// A process can be stopped by SIGSTOP or because its machine is suspended. When the process continues, its peers may
// have closed their connections to it. The culprit is then the stopped process, not the peers. Only the event loop's
// thread uses a PauseDetector.
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

  // Makes the event loop run at least once every tenth of the timeout.
  void watch(PollSet& set) const { set.wakeAt(last_ + timeout_ / 10); }
  // Call update() once per iteration of the event loop. An interval of 40 % of the timeout counts as a pause. The peers
  // expect a heartbeat every 10 % of the timeout and give up this process after 50 % without one.
  void update(TimePoint now = Deadline::Clock::now()) {
    if (now - last_ >= timeout_ * 4 / 10) {
      pauseLength_ = now - last_;
      until_ = now + timeout_ / 2;
    }
    last_ = now;
  }
  // Returns a text such as "was stopped for 12.3 s" while a failure may still be a consequence of the pause. Otherwise
  // text() is empty.
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
