// Waiter: lets a progress thread sleep until one of its connections or its doorbell has something for it.
//
// A connection that was armed and had nothing to do is asleep until a sleep says that it has, or something is posted on
// it: so a thread with many of them need not ask each by a system call of its own. Who polls instead of sleeping wakes
// those first that are wanted (net.h).
//
// Belongs to one thread. Connections whose plugin cannot wake a sleeper (no bpsNetWait_v1) are polled with back-off.
#pragma once
#include <sys/epoll.h>

#include <chrono>
#include <span>
#include <vector>

#include "src/base/io/fd.h"
#include "src/base/status.h"
#include "src/net/net.h"

namespace bps::net {

// Sleeps until the epoll descriptor has events, or `most` has passed. Returns how many of them stand in `events`.
Result<size_t> waitOnEpoll(int epoll, std::chrono::microseconds maxSleepTime, std::span<epoll_event> events);

class Waiter {
 public:
  static Result<Waiter> create(const Doorbell& bell);

  // `comm` must be removed before it is closed.
  Status add(Comm& comm);
  void remove(Comm& comm);
  void clear();

  // Sleeps until the doorbell rings, a connection can make progress, or `most` has passed. That is arm() and wait().
  Status sleep(std::chrono::milliseconds maxSleepTime) { return arm() ? Status() : wait(maxSleepTime); }
  // Tells the connections that somebody will sleep; true: do not, there is something to do.
  bool arm();
  Status wait(std::chrono::milliseconds maxSleepTime) { return epollAtMost(maxSleep(maxSleepTime)); }
  // Asks who is awake, after a sleep elsewhere.
  Status pollEvents() { return epollAtMost(std::chrono::microseconds(0)); }
  void markAllAwake();
  // To be called before each round of steps of a thread that polls.
  void markNeededAwake();
  // How long a sleep may be, with regard to connections that must be polled; longer each time without progress.
  std::chrono::microseconds maxSleep(std::chrono::milliseconds maxSleepTime);
  bool hasPolledComms() const { return !polledComms_.empty(); }
  // Readable when wait() would end. See IdleWaiter.
  int fd() const { return epoll_.get(); }
  // To be called after each round of steps in which something was done: poll eagerly again. Now and then all are woken,
  // since those that are busy for long must not make a thread forget the others.
  void noteProgress() {
    backOff_ = kMinBackOff;
    if (++stepsWithProgress_ % kStepsPerWakeAll == 0) markAllAwake();
  }

 private:
  static constexpr std::chrono::microseconds kMinBackOff{20}, kMaxBackOff{1000};
  static constexpr unsigned kStepsPerWakeAll = 16;

  Waiter(UniqueFd epoll) : epoll_(std::move(epoll)) {}
  Status epollAtMost(std::chrono::microseconds maxSleepTime);

  UniqueFd epoll_;
  std::vector<epoll_event> events_{1};  // room for one of each connection, and the doorbell's
  unsigned stepsWithProgress_ = 0;
  std::vector<Comm*> armableComms_;  // have a descriptor
  std::vector<Comm*> polledComms_;   // have none
  std::chrono::microseconds backOff_ = kMinBackOff;
};

}  // namespace bps::net
