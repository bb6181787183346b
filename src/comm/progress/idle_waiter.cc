#include "src/comm/progress/idle_waiter.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "src/base/format.h"
#include "src/net/waiter.h"

namespace bps {

Result<IdleWaiter> IdleWaiter::create(const Doorbell& bell, int connections) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return systemFailure("epoll_create1", errno);
  epoll_event event{};
  event.events = uint32_t{EPOLLIN} | EPOLLET;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, bell.fd(), &event) != 0) return systemFailure("epoll_ctl", errno);
  event.events = 0;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, connections, &event) != 0) return systemFailure("epoll_ctl", errno);
  return IdleWaiter(std::move(epoll), connections);
}

Status IdleWaiter::watchConnections(bool watch) {
  if (watch == watches_) return {};
  epoll_event event{};
  event.events = watch ? uint32_t{EPOLLIN} : 0;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connections_, &event) != 0) return systemFailure("epoll_ctl", errno);
  watches_ = watch;
  return {};
}

Result<bool> IdleWaiter::sleep(std::chrono::microseconds maxSleep) const {
  std::array<epoll_event, 2> events{};
  return BPS_TRY(net::waitOnEpoll(epoll_.get(), maxSleep, events)) > 0;
}

}  // namespace bps
