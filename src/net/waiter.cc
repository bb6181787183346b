#include "src/net/waiter.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "src/base/format.h"

namespace bps::net {

namespace {

// Like epoll_wait, but with a timeout in microseconds. Linux has epoll_pwait2 since version 5.11, and sandboxes that do
// not know epoll_pwait2 return EPERM. If epoll_pwait2 is missing, ppoll waits on the epoll descriptor itself, because
// ppoll also has a timeout finer than milliseconds. The system call is made directly, because the C library has a
// function for it only since glibc 2.35.
int epollWaitCompat(int epoll, const timespec& span, std::span<epoll_event> events) {
  static std::atomic<bool> missing{false};
  const int room = static_cast<int>(events.size());
  if (!missing.load(std::memory_order_relaxed)) {
    const auto count = static_cast<int>(::syscall(SYS_epoll_pwait2, epoll, events.data(), room, &span, nullptr, 0));
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
    missing.store(true, std::memory_order_relaxed);
  }
  pollfd ready{.fd = epoll, .events = POLLIN, .revents = 0};
  const int any = ::ppoll(&ready, 1, &span, nullptr);
  return any > 0 ? ::epoll_wait(epoll, events.data(), room, 0) : any;
}

}  // namespace

Result<size_t> waitOnEpoll(int epoll, std::chrono::microseconds maxSleepTime, std::span<epoll_event> events) {
  const timespec span{static_cast<time_t>(maxSleepTime.count() / 1000000),
                      static_cast<long>(maxSleepTime.count() % 1000000) * 1000};
  const int count = epollWaitCompat(epoll, span, events);
  if (count < 0 && errno != EINTR) return systemFailure("waiting on epoll", errno);
  return static_cast<size_t>(std::max(0, count));
}

Result<Waiter> Waiter::create(const Doorbell& bell) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return systemFailure("epoll_create1", errno);
  epoll_event event{};
  event.events = uint32_t{EPOLLIN} | EPOLLET;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, bell.fd(), &event) != 0) return systemFailure("epoll_ctl", errno);
  return Waiter(std::move(epoll));  // the data pointer of the doorbell's event is null
}

Status Waiter::add(Comm& comm) {
  if (comm.waitFd() < 0) {
    polledComms_.push_back(&comm);
    return {};
  }
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = &comm;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, comm.waitFd(), &event) != 0) return systemFailure("epoll_ctl", errno);
  armableComms_.push_back(&comm);
  events_.resize(armableComms_.size() + 1);
  return {};
}

void Waiter::remove(Comm& comm) {
  std::erase(polledComms_, &comm);
  comm.setAwake(true);  // the user of the connection tests it again and then sees a failure
  if (std::erase(armableComms_, &comm) > 0) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, comm.waitFd(), nullptr);
}

void Waiter::clear() {
  markAllAwake();
  for (Comm* comm : armableComms_) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, comm->waitFd(), nullptr);
  armableComms_.clear();
  polledComms_.clear();
}

// Removes failed connections, because a failed connection would end every sleep. The users of a failed connection see
// the failure in test().
bool Waiter::arm() {
  if (allArmed_.passed()) markAllAwake();
  bool ready = false;
  std::vector<Comm*> failed;
  for (Comm* comm : armableComms_) {
    if (comm->hasFailed()) {
      failed.push_back(comm);
      continue;
    }
    if (comm->armed()) continue;
    Result<bool> armed = comm->arm();
    const bool broken = !armed.ok();
    const bool asleep = !broken && !std::move(armed).value();
    comm->setAwake(!asleep);
    if (broken) failed.push_back(comm);
    else if (!asleep) ready = true;
  }
  for (Comm* comm : failed) remove(*comm);
  if (!ready && failed.empty()) return false;
  checkEvents();  // without a sleep, only this call finds the other connections that are ready
  return true;
}

void Waiter::markAllAwake() {
  allArmed_ = Deadline::in(kMaxArmedTime);
  for (Comm* comm : armableComms_) {
    comm->setAwake(true);
    comm->disarm();
  }
}

void Waiter::markNeededAwake() {
  for (Comm* comm : armableComms_) comm->setAwake(comm->needed());
}

Result<size_t> Waiter::collectEvents(std::chrono::microseconds maxSleepTime) {
  const size_t count = BPS_TRY(waitOnEpoll(epoll_.get(), maxSleepTime, events_));
  for (size_t i = 0; i < count; ++i) {
    auto* comm = static_cast<Comm*>(events_[i].data.ptr);
    if (comm == nullptr) continue;
    comm->setAwake(true);
    comm->disarm();
  }
  return count;
}

void Waiter::checkEvents() {
  if (allArmed_.passed() || !collectEvents(std::chrono::microseconds(0)).ok()) markAllAwake();
}

Status Waiter::wait(std::chrono::microseconds maxSleepTime) {
  const size_t count = BPS_TRY(collectEvents(maxSleepTime));
  if (count == 0) markAllAwake();  // test() also checks the peer's timeouts, for which there is no event
  return {};
}

std::chrono::microseconds Waiter::maxSleep(std::chrono::milliseconds maxSleepTime) {
  if (polledComms_.empty()) return maxSleepTime;
  const std::chrono::microseconds limited = std::min<std::chrono::microseconds>(maxSleepTime, backOff_);
  backOff_ = std::min(backOff_ * 2, kMaxBackOff);
  return limited;
}

}  // namespace bps::net
