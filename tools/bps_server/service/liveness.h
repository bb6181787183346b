// Liveness: whether the control thread of a server still takes turns of its event loop.
//
// An idle control thread sleeps without a timer, so each check wakes it. A check never waits: it judges whether the
// thread has taken a turn since an earlier check woke it. Any thread may call check().
#pragma once
#include <optional>
#include <string>

#include "src/base/deadline.h"
#include "src/base/mutex.h"
#include "src/server/control_server.h"

namespace bps {

class Liveness {
 public:
  // A turn takes milliseconds. Until this limit, the thread may be slow, for example because the machine swaps.
  static constexpr std::chrono::seconds kLimit{10};

  explicit Liveness(const server::ControlServer& server) : server_(server) {}
  // Returns why the server counts as hung, or empty text.
  std::string check();

 private:
  const server::ControlServer& server_;
  Mutex mutex_;
  uint64_t turns_ BPS_GUARDED_BY(mutex_) = 0;  // when the thread was woken
  std::optional<Deadline::Clock::time_point> woken_ BPS_GUARDED_BY(mutex_);
};

}  // namespace bps
