// CallInbox: passes calls from application threads to the holder of the progress lock (progress_engine.h), and counts
// them.
//
// Memory ordering: the mutex guards the calls. The holder of the progress lock sets asleep_ and
// then reads pushed_ before it goes to sleep. A caller increments pushed_ and then reads asleep_.
// All these accesses are sequentially consistent, so at least one of the two threads sees the store
// of the other thread.
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "src/base/io/fd.h"
#include "src/base/mutex.h"
#include "src/comm/call/collective.h"

namespace bps {

class CallInbox {
 public:
  explicit CallInbox(std::shared_ptr<Doorbell> bell) : bell_(std::move(bell)) {}

  // Any thread may call push(). After close(), push() does not take the call and returns false. A
  // caller that does not move the call itself must call wake() next.
  bool push(std::unique_ptr<Collective>& call) {
    MutexLock lock(mutex_);
    if (closed_) return false;
    calls_.push_back(std::move(call));
    pushed_.fetch_add(1);
    return true;
  }
  void wake() const {
    if (asleep_.load()) bell_->ring();
  }
  uint64_t pushed() const { return pushed_.load(); }

  // The caller holds the progress lock. Passes each call to `take`, which must not use the inbox.
  // Returns false if the inbox is empty.
  template <class F>
  bool takeAll(F take) {
    if (taken_ == pushed_.load()) return false;
    MutexLock lock(mutex_);
    taken_ += calls_.size();
    for (auto& call : calls_) take(std::move(call));
    calls_.clear();
    return true;
  }
  std::vector<std::unique_ptr<Collective>> close() {
    MutexLock lock(mutex_);
    closed_ = true;
    return std::exchange(calls_, {});
  }
  // Makes wake() ring the doorbell until endSleep(). Returns false if the inbox already contains a
  // call.
  bool prepareToSleep() {
    asleep_.store(true);
    return taken_ == pushed_.load();
  }
  void endSleep() { asleep_.store(false); }
  const Doorbell& bell() const { return *bell_; }

 private:
  std::shared_ptr<Doorbell> bell_;
  Mutex mutex_;
  std::vector<std::unique_ptr<Collective>> calls_ BPS_GUARDED_BY(mutex_);
  bool closed_ BPS_GUARDED_BY(mutex_) = false;
  std::atomic<uint64_t> pushed_{0};
  std::atomic<bool> asleep_{false};
  uint64_t taken_ = 0;
};

}  // namespace bps
