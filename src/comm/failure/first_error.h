// FirstError: the failure that ended a communicator. Any thread may set or read the failure. Only
// the first failure is kept.
//
// Memory ordering: set() writes the status under the mutex and then sets the flag with release
// order. A thread that has seen failed() reads the same status through get().
#pragma once
#include <atomic>

#include "src/base/mutex.h"
#include "src/base/status.h"

namespace bps {

class FirstError {
 public:
  // Returns false if a failure was set before.
  bool set(const Status& failure) {
    MutexLock lock(mutex_);
    if (!status_.ok() || failure.ok()) return false;
    status_ = failure.clone();
    failed_.store(true, std::memory_order_release);
    return true;
  }
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  Status get() const {
    MutexLock lock(mutex_);
    return status_.clone();
  }

 private:
  mutable Mutex mutex_;
  Status status_ BPS_GUARDED_BY(mutex_);
  std::atomic<bool> failed_{false};
};

}  // namespace bps
