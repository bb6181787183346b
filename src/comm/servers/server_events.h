// ServerEvents: the events of servers that the control plane has announced and that the CallScheduler has not handled
// yet. Any thread may use it.
#pragma once
#include <atomic>
#include <deque>
#include <optional>
#include <string>

#include "src/base/mutex.h"
#include "src/wire/server_messages.h"

namespace bps {

class ServerEvents {
 public:
  void add(const ServerEvent& event) {
    MutexLock lock(mutex_);
    events_.push_back(event);
    if (event.kind == ServerEvent::Kind::kLost) latestLoss_ = event.text;
    pending_.store(true, std::memory_order_release);
  }
  bool pending() const { return pending_.load(std::memory_order_acquire); }
  // Returns the oldest pending event, if there is one. It stays pending until handled().
  std::optional<ServerEvent> oldest() const {
    MutexLock lock(mutex_);
    return events_.empty() ? std::nullopt : std::optional(events_.front());
  }
  // The oldest event is no longer pending.
  void handled() {
    MutexLock lock(mutex_);
    events_.pop_front();
    pending_.store(!events_.empty(), std::memory_order_release);
  }

  // The reason of the latest loss; empty if no server is lost.
  std::string latestLoss() const {
    MutexLock lock(mutex_);
    return latestLoss_;
  }

 private:
  mutable Mutex mutex_;
  std::string latestLoss_ BPS_GUARDED_BY(mutex_);
  std::deque<ServerEvent> events_ BPS_GUARDED_BY(mutex_);
  std::atomic<bool> pending_{false};
};

}  // namespace bps
