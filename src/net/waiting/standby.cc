#include "src/net/waiting/standby.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstdint>

#include "src/base/format.h"

namespace bps::net {

Result<Standby> Standby::create(const Doorbell& bell, const Waiter& waiter) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return systemFailure("epoll_create1", errno);
  epoll_event event{};
  event.events = uint32_t{EPOLLIN} | EPOLLET;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, bell.fd(), &event) != 0) return systemFailure("epoll_ctl", errno);
  event.events = 0;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, waiter.fd(), &event) != 0) return systemFailure("epoll_ctl", errno);
  return Standby(std::move(epoll), waiter.fd());
}

Status Standby::watch(bool connections) {
  if (connections == watches_) return {};
  epoll_event event{};
  event.events = connections ? uint32_t{EPOLLIN} : 0;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connections_, &event) != 0) return systemFailure("epoll_ctl", errno);
  watches_ = connections;
  return {};
}

Result<bool> Standby::sleep(std::chrono::microseconds most) const {
  std::array<epoll_event, 2> events{};
  return BPS_TRY(sleepOn(epoll_.get(), most, events)) > 0;
}

}  // namespace bps::net
