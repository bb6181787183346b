#include "net_plugin/stream/interest.h"

#include <sys/epoll.h>

#include <cerrno>

#include "src/base/format.h"

namespace bps::plugin::stream {
namespace {

// epoll always reports errors and full hang-ups of a registered socket. EPOLLIN also reports a peer
// that has closed only its sending direction.
uint32_t eventsOf(Interest::Event what) {
  if (what == Interest::Event::kReading) return EPOLLIN;
  if (what == Interest::Event::kWriting) return EPOLLOUT;
  return EPOLLRDHUP;
}

}  // namespace

Result<int> Interest::fd() {
  if (!epoll_) epoll_ = UniqueFd(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return systemFailure("epoll_create1", errno);
  return epoll_.get();
}

Status Interest::set(int socket, Event& current, Event what) {
  if (what == current) return {};
  epoll_event event{};
  event.events = eventsOf(what);
  const int change = what == Event::kNothing      ? EPOLL_CTL_DEL
                     : current == Event::kNothing ? EPOLL_CTL_ADD
                                                  : EPOLL_CTL_MOD;
  if (::epoll_ctl(BPS_TRY(fd()), change, socket, &event) != 0) return systemFailure("epoll_ctl", errno);
  current = what;
  return {};
}

}  // namespace bps::plugin::stream
