// Waiter: lets a progress thread sleep until one of its connections or its doorbell has something for it.
//
// Belongs to one thread. Connections whose plugin cannot wake a sleeper (no bpsNetWait_v1) are polled with back-off.
#pragma once
#include <chrono>
#include <vector>

#include "src/base/fd.h"
#include "src/base/status.h"
#include "src/net/net.h"

namespace bps::net {

// Sleeps until the epoll descriptor has an event, or, false, `most` has passed.
Result<bool> sleepOn(int epoll, std::chrono::microseconds most);

class Waiter {
 public:
  static Result<Waiter> create(const Doorbell& bell);

  // `comm` must be removed before it is closed.
  Status add(Comm& comm);
  void remove(Comm& comm);
  void clear();

  // Sleeps until the doorbell rings, a connection can make progress, or `most` has passed. That is arm() and wait().
  Status sleep(std::chrono::milliseconds most) { return arm() ? Status() : wait(most); }
  // Tells the connections that somebody will sleep; true: do not, there is something to do.
  bool arm();
  Status wait(std::chrono::milliseconds most) { return sleepOn(epoll_.get(), limit(most)).status(); }
  // How long a sleep may be, with regard to connections that must be polled; longer each time without progress.
  std::chrono::microseconds limit(std::chrono::milliseconds most);
  bool polls() const { return !pollers_.empty(); }
  // Readable when wait() would end. See Standby.
  int fd() const { return epoll_.get(); }
  // Something was done since the last sleep: poll eagerly again.
  void noteProgress() { backOff_ = kLeastBackOff; }

 private:
  static constexpr std::chrono::microseconds kLeastBackOff{20}, kMostBackOff{1000};

  Waiter(UniqueFd epoll) : epoll_(std::move(epoll)) {}
  UniqueFd epoll_;
  std::vector<Comm*> sleepers_;  // have a descriptor
  std::vector<Comm*> pollers_;   // have none
  std::chrono::microseconds backOff_ = kLeastBackOff;
};

}  // namespace bps::net
