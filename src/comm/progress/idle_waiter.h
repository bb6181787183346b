// IdleWaiter: the sleep of the progress thread. The sleep ends when the doorbell rings. While connections are watched,
// it also ends when a connection has an event.
//
// A ring ends one sleep, even if nobody clears the doorbell. Only the progress thread calls sleep(). Only the holder of
// the progress lock calls watchConnections(), which it may do during a sleep.
#pragma once
#include <chrono>

#include "src/base/io/fd.h"
#include "src/base/status.h"

namespace bps {

class IdleWaiter {
 public:
  // `connections`: an epoll descriptor that outlives this object.
  static Result<IdleWaiter> create(const Doorbell& bell, int connections);

  // Makes a system call only if it changes something.
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
