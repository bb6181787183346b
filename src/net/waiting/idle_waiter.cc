#include "src/net/waiting/idle_waiter.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "src/base/format.h"

namespace bps::net {

Result<IdleWaiter> IdleWaiter::create(const Doorbell& bell, const Waiter& waiter) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return systemFailure("epoll_create1", errno);
  epoll_event event{};
  event.events = uint32_t{EPOLLIN} | EPOLLET;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, bell.fd(), &event) != 0) return systemFailure("epoll_ctl", errno);
  event.events = 0;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, waiter.fd(), &event) != 0) return systemFailure("epoll_ctl", errno);
  return IdleWaiter(std::move(epoll), waiter.fd());
}

Status IdleWaiter::watchConnections(bool connections) {
  if (connections == watchesConnections_) return {};
  epoll_event event{};
  event.events = connections ? uint32_t{EPOLLIN} : 0;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connections_, &event) != 0) return systemFailure("epoll_ctl", errno);
  watchesConnections_ = connections;
  return {};
}

Result<bool> IdleWaiter::sleep(std::chrono::microseconds maxSleepTime) const {
  std::array<epoll_event, 2> events{};
  return BPS_TRY(waitOnEpoll(epoll_.get(), maxSleepTime, events)) > 0;
}

}  // namespace bps::net
