#include "net_plugin/shm/lifeline.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "src/base/format.h"

namespace bps::plugin::shm {

// A full socket means that there are bells to take already, and a closed one is found by who listens.
void Lifeline::ring() const {
  const uint8_t bell = 1;
  [[maybe_unused]] const ssize_t sent = ::send(socket_.get(), &bell, sizeof bell, MSG_NOSIGNAL | MSG_DONTWAIT);
}

Lifeline::Heard Lifeline::listen() const {
  std::array<uint8_t, 64> bells;
  const ssize_t got = ::recv(socket_.get(), bells.data(), bells.size(), MSG_DONTWAIT);
  if (got > 0) return Heard::kBell;
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Heard::kNothing;
  return Heard::kHangup;
}

Result<int> Lifeline::waitFd() {
  if (!epoll_) epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return systemFailure("epoll_create1", errno);
  return epoll_.get();
}

Status Lifeline::watch(bool on) {
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
