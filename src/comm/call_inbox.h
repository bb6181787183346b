// CallInbox: hands calls from application threads to the channel thread, and counts them.
//
// Memory ordering: a call is handed over under the mutex. completed() is stored with release after the call's buffers
// were written. The channel announces that it is about to sleep (asleep_, sequentially consistent) and looks again
// before it does; push() stores first and looks at asleep_ after, so one of the two always sees the other.
#pragma once
#include <atomic>
#include <deque>
#include <memory>

#include "src/base/fd.h"
#include "src/base/mutex.h"
#include "src/comm/lanes/collective.h"

namespace bps {

class CallInbox {
 public:
  explicit CallInbox(std::shared_ptr<Doorbell> bell) : bell_(std::move(bell)) {}

  // Any thread. False when the channel has ended: the call was not taken.
  bool push(std::unique_ptr<Collective>& call) {
    {
      MutexLock lock(mutex_);
      if (closed_) return false;
      calls_.push_back(std::move(call));
      pushed_.fetch_add(1);
    }
    if (asleep_.load()) bell_->ring();
    return true;
  }
  uint64_t pushed() const { return pushed_.load(); }

  // Channel thread.
  std::deque<std::unique_ptr<Collective>> takeAll() {
    if (taken_ == pushed_.load()) return {};
    MutexLock lock(mutex_);
    taken_ += calls_.size();
    return std::exchange(calls_, {});
  }
  std::deque<std::unique_ptr<Collective>> close() {
    MutexLock lock(mutex_);
    closed_ = true;
    return std::exchange(calls_, {});
  }
  // Before sleeping: true when nothing came meanwhile. Undo with awake().
  bool fallAsleep() {
    asleep_.store(true);
    return taken_ == pushed_.load();
  }
  void awake() { asleep_.store(false); }
  const Doorbell& bell() const { return *bell_; }

 private:
  std::shared_ptr<Doorbell> bell_;
  Mutex mutex_;
  std::deque<std::unique_ptr<Collective>> calls_ BPS_GUARDED_BY(mutex_);
  bool closed_ BPS_GUARDED_BY(mutex_) = false;
  std::atomic<uint64_t> pushed_{0};
  std::atomic<bool> asleep_{false};
  uint64_t taken_ = 0;  // channel thread
};

}  // namespace bps
