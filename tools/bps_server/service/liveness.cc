#include "tools/bps_server/service/liveness.h"

#include "src/base/format.h"

namespace bps {

std::string Liveness::check() {
  MutexLock lock(mutex_);
  const uint64_t turns = server_.counters().turns.value();
  const auto now = Deadline::Clock::now();
  if (!woken_ || turns != turns_) {
    turns_ = turns;
    woken_ = now;
    server_.wake();
    return {};
  }
  if (now - *woken_ < kLimit) return {};
  const std::chrono::duration<double> silent = now - *woken_;
  return fmt::format("the control thread has not answered for {:.0f} s", silent.count());
}

}  // namespace bps
