#include "net_plugin/shm/liveness_socket.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "src/base/format.h"

namespace bps::plugin::shm {

// Ignores errors. If the socket is full, wake-ups are pending already. If the peer has closed the
// socket, receiveEvent() will report the hang-up.
void LivenessSocket::sendWakeup() const {
  const uint8_t wakeup = 1;
  [[maybe_unused]] const ssize_t sent = ::send(socket_.get(), &wakeup, sizeof wakeup, MSG_NOSIGNAL | MSG_DONTWAIT);
}

LivenessSocket::Event LivenessSocket::receiveEvent() const {
  std::array<uint8_t, 64> wakeups;
  const ssize_t got = ::recv(socket_.get(), wakeups.data(), wakeups.size(), MSG_DONTWAIT);
  if (got > 0) return Event::kWakeup;
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Event::kNothing;
  return Event::kHangup;
}

Result<int> LivenessSocket::waitFd() {
  if (!epoll_) epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return systemFailure("epoll_create1", errno);
  return epoll_.get();
}

Status LivenessSocket::setWatched(bool on) {
  if (on == watched_) return {};
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  const int fd = BPS_TRY(waitFd());
  if (::epoll_ctl(fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, socket_.get(), &event) != 0)
    return systemFailure("epoll_ctl", errno);
  watched_ = on;
  return {};
}

}  // namespace bps::plugin::shm
