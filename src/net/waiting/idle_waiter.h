// IdleWaiter: the sleep of a thread that waits for its turn beside the one at work. It ends when the doorbell rings
// and, while it watches, when a connection of the Waiter can make progress.
//
// A ring may end this sleep even if somebody who sleeps in the Waiter is there for it: once, not for as long as the
// doorbell has not been cleared.
//
// sleep() belongs to the thread that stands by; watch() to whoever is at work, at any time.
#pragma once
#include <chrono>

#include "src/base/fd.h"
#include "src/base/status.h"
#include "src/net/waiting/waiter.h"

namespace bps::net {

class IdleWaiter {
 public:
  // `waiter` is not destroyed while somebody sleeps here.
  static Result<IdleWaiter> create(const Doorbell& bell, const Waiter& waiter);

  // One system call when it changes something.
  Status watchConnections(bool connections);
  // False: `most` has passed.
  Result<bool> sleep(std::chrono::microseconds maxSleepTime) const;

 private:
  IdleWaiter(UniqueFd epoll, int connections) : epoll_(std::move(epoll)), connections_(connections) {}

  UniqueFd epoll_;
  int connections_;
  bool watchesConnections_ = false;
};

}  // namespace bps::net
