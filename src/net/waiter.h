// Waiter: lets a progress thread sleep until a connection can make progress or the thread's doorbell rings.
//
// If a connection has nothing to do when it is armed, the Waiter marks it as not awake. The connection becomes awake
// again when epoll reports it or when a request is posted on it. The thread tests only awake connections, which saves a
// system call for every connection that is not awake. A thread that polls instead of sleeping tests the needed
// connections (Comm::needed()), without asking epoll.
//
// The Waiter does not arm a connection again if nothing has happened on it. So the cost of a sleep grows with the
// connections that have something to do, and not with all connections.
//
// A ring of the doorbell ends one sleep, even if no thread clears the doorbell.
//
// Only one thread at a time uses a Waiter. If a plugin cannot wake a sleeping thread (it has no bpsNetWait_v1), the
// thread polls the plugin's connections with increasing pauses.
#pragma once
#include <sys/epoll.h>

#include <chrono>
#include <span>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/io/fd.h"
#include "src/base/status.h"
#include "src/net/net.h"

namespace bps::net {

// Sleeps until the epoll descriptor has events or `maxSleepTime` has passed. Returns the number of events that were
// written to `events`.
Result<size_t> waitOnEpoll(int epoll, std::chrono::microseconds maxSleepTime, std::span<epoll_event> events);

class Waiter {
 public:
  static Result<Waiter> create(const Doorbell& bell);

  // Adds a connection. The caller must remove the connection before it destroys it.
  Status add(Comm& comm);
  void remove(Comm& comm);
  void clear();

  // Sleeps until the doorbell rings, a connection can make progress or `maxSleepTime` has passed.
  Status sleep(std::chrono::milliseconds maxSleepTime) { return arm() ? Status() : wait(maxSleep(maxSleepTime)); }
  // Prepares the connections for a sleep. Returns true if the thread must not sleep, because progress is possible. The
  // connections that can make progress are then awake.
  bool arm();
  // Sleeps, and marks the connections that epoll reports as awake. If the thread has slept in another function, it
  // calls wait() with 0. The caller limits the time by maxSleep().
  Status wait(std::chrono::microseconds maxSleepTime);
  void markAllAwake();
  // A polling thread calls markNeededAwake() before it steps its connections.
  void markNeededAwake();
  // Returns `maxSleepTime`, or the current back-off if it is shorter and there are polled connections. The back-off
  // doubles with each call of maxSleep() until noteProgress() resets it.
  std::chrono::microseconds maxSleep(std::chrono::milliseconds maxSleepTime);
  bool hasPolledComms() const { return !polledComms_.empty(); }
  // A descriptor that is readable whenever wait() would return. See IdleWaiter.
  int fd() const { return epoll_.get(); }
  // Call noteProgress() after a step of the connections has made progress. noteProgress() resets the back-off. Every
  // kStepsPerCheck calls, noteProgress() asks epoll for events, so that connections that are busy for a long time do
  // not starve the other connections.
  void noteProgress() {
    backOff_ = kMinBackOff;
    if (++stepsWithProgress_ % kStepsPerCheck == 0) checkEvents();
  }

 private:
  static constexpr std::chrono::microseconds kMinBackOff{20}, kMaxBackOff{1000};
  static constexpr unsigned kStepsPerCheck = 16;
  // After this time all connections are armed or tested again, because they find some failures of peers only then.
  static constexpr std::chrono::milliseconds kMaxArmedTime{500};

  Waiter(UniqueFd epoll) : epoll_(std::move(epoll)) {}
  // Marks the connections that epoll reports as awake. Returns the number of events.
  Result<size_t> collectEvents(std::chrono::microseconds maxSleepTime);
  void checkEvents();

  UniqueFd epoll_;
  std::vector<epoll_event> events_{1};  // one event per connection with a descriptor, and one for the doorbell
  unsigned stepsWithProgress_ = 0;
  std::vector<Comm*> armableComms_;  // connections with a descriptor
  std::vector<Comm*> polledComms_;   // connections without a descriptor
  std::chrono::microseconds backOff_ = kMinBackOff;
  Deadline allArmed_ = Deadline::in(kMaxArmedTime);  // when all connections are armed or tested again
};

}  // namespace bps::net
