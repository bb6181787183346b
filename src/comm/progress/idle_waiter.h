// IdleWaiter: the sleep of the progress thread. It ends when the doorbell rings and, while it watches them, when a
// connection has something.
//
// A ring ends one sleep, not all sleeps until the doorbell is cleared. sleep() belongs to the progress thread;
// watchConnections() to the holder of the progress lock, also during a sleep.
#pragma once
#include <chrono>

#include "src/base/io/fd.h"
#include "src/base/status.h"

namespace bps {

class IdleWaiter {
 public:
  // `connections`: an epoll descriptor that outlives this object.
  static Result<IdleWaiter> create(const Doorbell& bell, int connections);

  // One system call if it changes something, else none.
  Status watchConnections(bool watch);
  // False: `maxSleep` has passed.
  Result<bool> sleep(std::chrono::microseconds maxSleep) const;

 private:
  IdleWaiter(UniqueFd epoll, int connections) : epoll_(std::move(epoll)), connections_(connections) {}

  UniqueFd epoll_;
  int connections_;
  bool watches_ = false;
};

}  // namespace bps
