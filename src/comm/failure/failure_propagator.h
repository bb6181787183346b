// FailurePropagator: makes a parent communicator and the child communicators that carry parts of
// its calls fail together on all ranks. Otherwise a rank could report success for a sum that is
// wrong because a child failed on another rank.
//
//   a child fails on a rank      ->  the parent's hub decides what happened and tells all ranks
//   the parent fails on a rank   ->  its children on that rank fail with the same message
//
// Threads: any thread may call any method. A listener runs with the mutex held, so it must not call
// this object. A listener does not run after its removal.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "src/base/mutex.h"
#include "src/base/status.h"

namespace bps {

class FailurePropagator {
 public:
  using Listener = std::function<void(const Status&)>;
  explicit FailurePropagator(Listener parent) : parent_(std::move(parent)) {}

  // Tells all children that the parent has failed. Only the first failure is passed on.
  void parentFailed(const Status& failure) {
    MutexLock lock(mutex_);
    if (!failure_.ok()) return;
    failure_ = failure.clone();
    for (const auto& [id, child] : children_) child(failure);
  }
  void removeParent() {
    MutexLock lock(mutex_);
    parent_ = nullptr;
  }

  // Returns the number that removeChild() needs. If the parent has failed already, the listener
  // runs at once.
  uint64_t addChild(Listener child) {
    MutexLock lock(mutex_);
    if (!failure_.ok()) child(failure_);
    children_[++lastId_] = std::move(child);
    return lastId_;
  }
  void removeChild(uint64_t id) {
    MutexLock lock(mutex_);
    children_.erase(id);
  }
  void childFailed(const Status& failure) {
    MutexLock lock(mutex_);
    if (parent_ != nullptr && failure_.ok()) parent_(failure);
  }

 private:
  Mutex mutex_;
  Listener parent_ BPS_GUARDED_BY(mutex_);
  Status failure_ BPS_GUARDED_BY(mutex_);
  std::map<uint64_t, Listener> children_ BPS_GUARDED_BY(mutex_);
  uint64_t lastId_ BPS_GUARDED_BY(mutex_) = 0;
};

}  // namespace bps
