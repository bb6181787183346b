// ServerLosses: the losses of servers that the control plane has announced and that the CallScheduler
// has not handled yet. Any thread may use it.
#pragma once
#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "src/base/mutex.h"
#include "src/control/control_plane.h"

namespace bps {

class ServerLosses {
 public:
  void add(const ServerLost& loss) {
    MutexLock lock(mutex_);
    losses_.push_back(loss);
    latest_ = loss.why;
    pending_.store(true, std::memory_order_release);
  }
  bool pending() const { return pending_.load(std::memory_order_acquire); }
  // Returns the losses that are pending, in the order of add(). They stay pending until handled().
  std::vector<ServerLost> all() const {
    MutexLock lock(mutex_);
    return losses_;
  }
  // The first loss is no longer pending.
  void handled() {
    MutexLock lock(mutex_);
    losses_.erase(losses_.begin());
    pending_.store(!losses_.empty(), std::memory_order_release);
  }

  // The reason of the latest loss; empty if no server is lost.
  std::string latestReason() const {
    MutexLock lock(mutex_);
    return latest_;
  }

 private:
  mutable Mutex mutex_;
  std::string latest_ BPS_GUARDED_BY(mutex_);
  std::vector<ServerLost> losses_ BPS_GUARDED_BY(mutex_);
  std::atomic<bool> pending_{false};
};

}  // namespace bps
