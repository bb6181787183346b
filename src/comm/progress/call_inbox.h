// CallInbox: hands calls from application threads to the one that has the turn (progress_engine.h), and counts them.
//
// Memory ordering: a call is handed over under the mutex. Who has the turn announces that nobody will look for a while
// (asleep_, sequentially consistent) and looks again before that; push() stores first and wake() looks at asleep_
// after, so one of the two always sees the other.
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

  // Any thread. False when the channel has ended: the call was not taken. Who does not take it out himself says so by
  // wake().
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

  // With the turn. Hands each call to `take`, which may not come back here; false: there is none.
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
  // Nobody looks from now on: true when nothing came meanwhile. Undo with awake().
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
