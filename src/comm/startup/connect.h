// Connect: makes the session of a communicator on this rank after all ranks have agreed on the
// roster.
#pragma once
#include <chrono>
#include <memory>

#include "src/base/deadline.h"
#include "src/comm/progress/progress_thread.h"

namespace bps {

// Returns BPS_TIMEOUT.
inline std::chrono::nanoseconds timeoutOf(const Env& env) {
  return std::chrono::nanoseconds(static_cast<int64_t>(env.timeout.value * 1e9));
}

// Sets up this machine, starts the progress thread and connects the data plane. Blocks until this
// rank is connected; other ranks may still be connecting. All ranks call this function.
Result<std::unique_ptr<ProgressThread>> connect(SessionBase base, Deadline deadline);

}  // namespace bps
