// Waiter: lets a progress thread sleep until one of its connections can make progress or its doorbell rings.
//
// A connection that had nothing to do when it was armed is marked not awake, until epoll reports it or a request is
// posted on it. The thread tests only awake connections, which saves a system call for each of the others. A thread
// that polls instead of sleeping first marks the needed connections awake (Comm::needed()).
//
// Used by one thread. If the plugin cannot wake a sleeping thread (no bpsNetWait_v1), the connection is polled with
// back-off.
#pragma once
#include <sys/epoll.h>

#include <chrono>
#include <span>
#include <vector>

#include "src/base/io/fd.h"
#include "src/base/status.h"
#include "src/net/net.h"

namespace bps::net {

// Sleeps until the epoll descriptor has events or `maxSleepTime` has passed. Returns the number of events in `events`.
Result<size_t> waitOnEpoll(int epoll, std::chrono::microseconds maxSleepTime, std::span<epoll_event> events);

class Waiter {
 public:
  static Result<Waiter> create(const Doorbell& bell);

  // Remove `comm` before it is destroyed.
  Status add(Comm& comm);
  void remove(Comm& comm);
  void clear();

  // arm(), then wait(): sleeps until the doorbell rings, a connection can make progress or `maxSleepTime` has passed.
  Status sleep(std::chrono::milliseconds maxSleepTime) { return arm() ? Status() : wait(maxSleepTime); }
  // Prepares the connections for a sleep. Returns true if the thread must not sleep, because progress is possible.
  bool arm();
  Status wait(std::chrono::milliseconds maxSleepTime) { return epollAtMost(maxSleep(maxSleepTime)); }
  // Marks the connections awake that epoll reports, without sleeping. Call it after the thread slept elsewhere.
  Status pollEvents() { return epollAtMost(std::chrono::microseconds(0)); }
  void markAllAwake();
  // A polling thread calls this before it steps its connections.
  void markNeededAwake();
  // Returns `maxSleepTime`, limited by the back-off if there are polled connections. The back-off doubles with each
  // call until noteProgress().
  std::chrono::microseconds maxSleep(std::chrono::milliseconds maxSleepTime);
  bool hasPolledComms() const { return !polledComms_.empty(); }
  // A descriptor that is readable when wait() would return. See IdleWaiter.
  int fd() const { return epoll_.get(); }
  // Call it after stepping the connections made progress. Resets the back-off. Every kStepsPerWakeAll calls, it marks
  // all connections awake, so that connections that are busy for long do not starve the others.
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
  std::vector<epoll_event> events_{1};  // one for each connection with a descriptor, and one for the doorbell
  unsigned stepsWithProgress_ = 0;
  std::vector<Comm*> armableComms_;  // connections with a descriptor
  std::vector<Comm*> polledComms_;   // connections without a descriptor
  std::chrono::microseconds backOff_ = kMinBackOff;
};

}  // namespace bps::net
