#include "perf/delay_line/delay_line.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "src/base/format.h"

namespace bps::perf {
namespace {

// An epoll event reports 2 * link for the host's device of a link, and 2 * link + 1 for the port.
constexpr uint64_t kTimer = UINT64_MAX, kCommands = UINT64_MAX - 1;

// A device is read this many times in a turn, so that no device delays the others for long.
constexpr int kFramesPerTurn = 32;

// Reads one frame. Returns 0 if there is none.
Result<size_t> readFrame(int fd, std::span<uint8_t> room) {
  const ssize_t bytes = ::read(fd, room.data(), room.size());
  if (bytes >= 0) return static_cast<size_t>(bytes);
  if (errno == EAGAIN || errno == EINTR) return size_t{0};
  return systemFailure("read from a TAP device", errno);
}

}  // namespace

DelayLine::DelayLine(std::chrono::nanoseconds delay, std::vector<Link> links)
    : delay_(delay),
      links_(std::move(links)),
      waiting_(kBytesPerLink * links_.size()),
      scratch_(kMaxFrame),
      timerAt_(Clock::time_point::max()) {}

Result<std::unique_ptr<DelayLine>> DelayLine::create(std::chrono::nanoseconds delay, std::vector<Link> links) {
  std::unique_ptr<DelayLine> line(new DelayLine(delay, std::move(links)));
  BPS_TRY(line->open());
  return line;
}

Status DelayLine::open() {
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return systemFailure("epoll_create1", errno);
  timer_.reset(::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));
  if (!timer_) return systemFailure("timerfd_create", errno);
  BPS_TRY(watch(timer_.get(), kTimer));
  BPS_TRY(watch(STDIN_FILENO, kCommands));
  for (size_t i = 0; i < links_.size(); ++i) {
    BPS_TRY(watch(links_[i].host.get(), 2 * i));
    BPS_TRY(watch(links_[i].port.get(), 2 * i + 1));
  }
  return {};
}

Status DelayLine::watch(int fd, uint64_t what) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = what;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return systemFailure("epoll_ctl", errno);
  return {};
}

Status DelayLine::run() {
  std::array<epoll_event, 64> events{};
  while (!ended_) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), -1);
    if (count < 0 && errno != EINTR) return systemFailure("epoll_wait", errno);
    for (int i = 0; i < count; ++i) {
      BPS_TRY(handle(events[static_cast<size_t>(i)].data.u64));
      sendDueFrames();
    }
    BPS_TRY(setTimer());
  }
  return {};
}

Status DelayLine::handle(uint64_t what) {
  if (what == kCommands) return readCommands();
  if (what != kTimer) return what % 2 == 0 ? readHost(what / 2) : readPort(what / 2);
  uint64_t rings = 0;
  if (::read(timer_.get(), &rings, sizeof rings) > 0) timerAt_ = Clock::time_point::max();
  return {};
}

Status DelayLine::readHost(size_t link) {
  for (int i = 0; i < kFramesPerTurn; ++i) {
    const std::span<uint8_t> room = waiting_.room();
    const size_t bytes = BPS_TRY(readFrame(links_[link].host.get(), room.empty() ? std::span(scratch_) : room));
    if (bytes == 0) break;
    if (room.empty()) ++drops_;
    else waiting_.push(bytes, link, Clock::now() + delay_);
  }
  return {};
}

Status DelayLine::readPort(size_t link) {
  for (int i = 0; i < kFramesPerTurn; ++i) {
    const size_t bytes = BPS_TRY(readFrame(links_[link].port.get(), scratch_));
    if (bytes == 0) break;
    write(links_[link].host.get(), std::span(scratch_).first(bytes));
  }
  return {};
}

Status DelayLine::readCommands() {
  std::array<char, 256> text{};
  const ssize_t bytes = ::read(STDIN_FILENO, text.data(), text.size());
  if (bytes < 0) return errno == EINTR ? Status() : systemFailure("read from standard input", errno);
  ended_ = bytes == 0;
  for (auto lines = std::count(text.begin(), text.begin() + bytes, '\n'); lines > 0; --lines) {
    const std::string answer = fmt::format("{}\n", drops_);
    if (::write(STDOUT_FILENO, answer.data(), answer.size()) < 0)
      return systemFailure("write to standard output", errno);
  }
  return {};
}

void DelayLine::write(int fd, std::span<const uint8_t> frame) {
  if (::write(fd, frame.data(), frame.size()) < 0) ++drops_;
}

void DelayLine::sendDueFrames() {
  if (waiting_.empty()) return;
  for (const Clock::time_point now = Clock::now(); !waiting_.empty() && waiting_.front().due <= now; waiting_.pop())
    write(links_[waiting_.front().link].port.get(), waiting_.front().bytes);
}

Status DelayLine::setTimer() {
  if (waiting_.empty() || timerAt_ <= waiting_.front().due) return {};
  timerAt_ = waiting_.front().due;
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(timerAt_.time_since_epoch());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(since);
  itimerspec at{};
  at.it_value.tv_sec = seconds.count();
  at.it_value.tv_nsec = (since - seconds).count();
  if (::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &at, nullptr) != 0)
    return systemFailure("timerfd_settime", errno);
  return {};
}

}  // namespace bps::perf
