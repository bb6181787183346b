// FailurePropagator: a communicator, the whole, and those that carry parts of its calls fail together, on all ranks:
// who has a part of a sum must not be told of success while another's is wrong.
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

class FailurePropagator {
 public:
  using Listener = std::function<void(const Status&)>;
  explicit FailurePropagator(Listener parent) : parent_(std::move(parent)) {}

  // The whole has failed, or is gone.
  void parentFailed(const Status& failure) {
    MutexLock lock(mutex_);
    if (!failure_.ok()) return;
    failure_ = failure.clone();
    for (const auto& [id, child] : children_) child(failure);
  }
  void parentDestroyed() {
    MutexLock lock(mutex_);
    parent_ = nullptr;
  }

  // A part, by the number that it gives back at its end. It may be told at once.
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
