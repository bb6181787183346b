// FailureTie: a communicator, the whole, and those that carry parts of its calls fail together, on all ranks: who has a
// part of a sum must not be told of success while another's is wrong.
//
//   a part fails on a rank  ->  the whole's hub decides what happened, as when a connection breaks  ->  all ranks hear
//   the whole fails on a rank  ->  its parts there fail too, in the same words
//
// Threads: any. Who is told is told under the mutex, and never afterwards; it must not come back.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "src/base/mutex.h"
#include "src/base/status.h"

namespace bps {

class FailureTie {
 public:
  using Listener = std::function<void(const Status&)>;
  explicit FailureTie(Listener whole) : whole_(std::move(whole)) {}

  // The whole has failed, or is gone.
  void wholeFailed(const Status& failure) {
    MutexLock lock(mutex_);
    if (!failure_.ok()) return;
    failure_ = failure.clone();
    for (const auto& [number, part] : parts_) part(failure);
  }
  void wholeGone() {
    MutexLock lock(mutex_);
    whole_ = nullptr;
  }

  // A part, by the number that it gives back at its end. It may be told at once.
  uint64_t enter(Listener part) {
    MutexLock lock(mutex_);
    if (!failure_.ok()) part(failure_);
    parts_[++last_] = std::move(part);
    return last_;
  }
  void leave(uint64_t number) {
    MutexLock lock(mutex_);
    parts_.erase(number);
  }
  void partFailed(const Status& failure) {
    MutexLock lock(mutex_);
    if (whole_ != nullptr && failure_.ok()) whole_(failure);
  }

 private:
  Mutex mutex_;
  Listener whole_ BPS_GUARDED_BY(mutex_);
  Status failure_ BPS_GUARDED_BY(mutex_);
  std::map<uint64_t, Listener> parts_ BPS_GUARDED_BY(mutex_);
  uint64_t last_ BPS_GUARDED_BY(mutex_) = 0;
};

}  // namespace bps
