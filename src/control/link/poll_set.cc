#include "src/control/link/poll_set.h"

#include <cerrno>

#include "src/base/format.h"

namespace bps {

void PollSet::clear() {
  for (const pollfd& entry : polled_) events_[static_cast<size_t>(entry.fd)] = 0;
  polled_.clear();
  wake_ = TimePoint::max();
}

void PollSet::add(int fd, bool write) {
  polled_.push_back({fd, static_cast<short>(write ? POLLIN | POLLOUT : POLLIN), 0});
  if (events_.size() <= static_cast<size_t>(fd)) events_.resize(static_cast<size_t>(fd) + 1);
}

void PollSet::addWriter(int fd) {
  add(fd);
  polled_.back().events = POLLOUT;
}

Status PollSet::wait() {
  int timeout = -1;
  if (wake_ != TimePoint::max()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(wake_ - Deadline::Clock::now()).count();
    timeout = static_cast<int>(std::clamp<decltype(left)>(left, 0, 60'000));
  }
  const int count = ::poll(polled_.data(), polled_.size(), timeout);
  if (count < 0 && errno != EINTR) return systemFailure("poll", errno);
  for (const pollfd& entry : polled_)
    events_[static_cast<size_t>(entry.fd)] =
        static_cast<short>(events_[static_cast<size_t>(entry.fd)] | (count > 0 ? entry.revents : 0));
  return {};
}

bool PollSet::ready(int fd) const {
  return fd >= 0 && static_cast<size_t>(fd) < events_.size() && events_[static_cast<size_t>(fd)] != 0;
}

}  // namespace bps
