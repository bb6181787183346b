#include "src/net/waiter.h"

#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "src/base/format.h"

namespace bps::net {

Result<bool> sleepOn(int epoll, std::chrono::microseconds most) {
  const timespec span{static_cast<time_t>(most.count() / 1000000), static_cast<long>(most.count() % 1000000) * 1000};
  std::array<epoll_event, 8> events{};
  const int count = ::epoll_pwait2(epoll, events.data(), static_cast<int>(events.size()), &span, nullptr);
  if (count < 0 && errno != EINTR) return systemFailure("epoll_pwait2", errno);
  return count > 0;
}

Result<Waiter> Waiter::create(const Doorbell& bell) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return systemFailure("epoll_create1", errno);
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, bell.fd(), &event) != 0) return systemFailure("epoll_ctl", errno);
  return Waiter(std::move(epoll));
}

Status Waiter::add(Comm& comm) {
  if (comm.waitFd() < 0) {
    pollers_.push_back(&comm);
    return {};
  }
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, comm.waitFd(), &event) != 0) return systemFailure("epoll_ctl", errno);
  sleepers_.push_back(&comm);
  return {};
}

void Waiter::remove(Comm& comm) {
  std::erase(pollers_, &comm);
  if (std::erase(sleepers_, &comm) > 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, comm.waitFd(), nullptr);
}

void Waiter::clear() {
  for (Comm* comm : sleepers_) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, comm->waitFd(), nullptr);
  sleepers_.clear();
  pollers_.clear();
}

// A connection that has failed has nothing to wake anybody for: whoever uses it learns of the failure from test().
bool Waiter::arm() {
  bool ready = false;
  std::vector<Comm*> failed;
  for (Comm* comm : sleepers_) {
    Result<bool> armed = comm->arm();
    if (!armed.ok()) failed.push_back(comm);
    else if (std::move(armed).value()) ready = true;
  }
  for (Comm* comm : failed) remove(*comm);
  return ready || !failed.empty();
}

std::chrono::microseconds Waiter::limit(std::chrono::milliseconds most) {
  if (pollers_.empty()) return most;
  const std::chrono::microseconds limited = std::min<std::chrono::microseconds>(most, backOff_);
  backOff_ = std::min(backOff_ * 2, kMostBackOff);
  return limited;
}

}  // namespace bps::net
