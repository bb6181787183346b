// CountersSlot: carries the counters of a summation thread to a thread that asks for them.
//
// A thread that asks calls ask(), posts a command to the summation thread if ask() returns true, and then calls
// waitUntil(). The summation thread calls put() in this command. While a command is pending, ask() returns false, so a
// summation thread that hangs accumulates no commands. A mutex guards the slot; any thread may call its functions.
#pragma once
#include <utility>

#include "src/base/deadline.h"
#include "src/base/mutex.h"
#include "src/server/metrics/counters.h"

namespace bps {

class CountersSlot {
 public:
  bool ask() {
    MutexLock lock(mutex_);
    return !std::exchange(pending_, true);
  }
  void put(ThreadCounters counters) {
    MutexLock lock(mutex_);
    counters_ = std::move(counters);
    pending_ = false;
    changed_.notifyAll();
  }
  // Returns false if the thread has not answered; `counters` are then those of its last answer.
  bool waitUntil(Deadline deadline, ThreadCounters& counters) {
    MutexLock lock(mutex_);
    while (pending_ && !deadline.passed()) changed_.waitUntil(mutex_, deadline.at());
    counters = counters_;
    return !pending_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool pending_ BPS_GUARDED_BY(mutex_) = false;
  ThreadCounters counters_ BPS_GUARDED_BY(mutex_);
};

}  // namespace bps
