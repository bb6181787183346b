// IdleWaiter: lets the progress thread sleep until the doorbell rings. While connections are
// watched, the sleep also ends when a connection has an event.
//
// A ring ends only one sleep, even if no thread clears the doorbell. Only the progress thread calls
// sleep(). Only the holder of the progress lock calls watchConnections(), even while the progress
// thread sleeps.
#pragma once
#include <chrono>

#include "src/base/io/fd.h"
#include "src/base/status.h"

namespace bps {

class IdleWaiter {
 public:
  // `connections` is an epoll descriptor that must outlive this object.
  static Result<IdleWaiter> create(const Doorbell& bell, int connections);

  // Makes a system call only if `watch` differs from the current state.
  Status watchConnections(bool watch);
  // Returns false if `maxSleep` has passed.
  Result<bool> sleep(std::chrono::microseconds maxSleep) const;

 private:
  IdleWaiter(UniqueFd epoll, int connections) : epoll_(std::move(epoll)), connections_(connections) {}

  UniqueFd epoll_;
  int connections_;
  bool watches_ = false;
};

}  // namespace bps
