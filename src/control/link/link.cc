#include "src/control/link/link.h"

#include <algorithm>

#include "src/base/format.h"

namespace bps {
namespace {

using std::chrono::milliseconds;
// The limits for the input that a Link reads in one period. No peer needs to send more, and reading this amount costs
// little CPU time.
constexpr milliseconds kPeriod(10);
constexpr size_t kFramesPerPeriod = 64, kBytesPerPeriod = 1U << 20;
constexpr milliseconds kMaxHeartbeatInterval(30000);  // middleboxes may drop connections that are idle for minutes
constexpr uint32_t kMinTimeoutMs = 100;  // sends at most one heartbeat every 10 ms, however short the peer's timeout is

// One sample may be late because a thread was not running. The best of the first few samples is good, except on a busy
// machine, where more are taken until one is good or there are too many.
struct ClockSamples {
  int least, most;
};
constexpr ClockSamples kFirstClockSamples{16, 256}, kLaterClockSamples{4, 16};
constexpr uint64_t kGoodClockUncertainty = 50000;  // nanoseconds

// The messages that a Link handles itself, in every state.
bool isOfLink(MessageType type) {
  return type == MessageType::kHeartbeat || type == MessageType::kClockRequest || type == MessageType::kClockReply;
}

uint64_t steadyNanoseconds() {
  return static_cast<uint64_t>(std::chrono::nanoseconds(Deadline::Clock::now().time_since_epoch()).count());
}

}  // namespace

Link::Link(Peer peer, std::string name, uint32_t timeoutMs)
    : socket_(std::move(peer.socket)), name_(std::move(name)), peerTimeoutMs_(peer.timeoutMs) {
  setTimeout(timeoutMs);
  lastReceived_ = lastSent_ = lastStep_ = periodStart_ = Deadline::Clock::now();
}

void Link::setTimeout(uint32_t timeoutMs) {
  silenceTimeout_ = milliseconds(std::max(timeoutMs, kMinTimeoutMs) / 2);
  const milliseconds tenth(std::max(std::min(timeoutMs, peerTimeoutMs_), kMinTimeoutMs) / 10);
  heartbeatInterval_ = std::min(tenth, kMaxHeartbeatInterval);
}

void Link::watch(PollSet& set) const {
  if (!throttled()) set.add(socket_->fd(), socket_->wantsWrite());
  else set.wakeAt(periodStart_ + kPeriod);
  set.wakeAt(std::min(lastSent_ + heartbeatInterval_, lastReceived_ + silenceTimeout_));
}

Status Link::step(const PollSet& set) {
  const TimePoint now = Deadline::Clock::now();
  if (now - lastStep_ > silenceTimeout_ / 2) lastReceived_ = now;
  lastStep_ = now;
  if (now >= periodStart_ + kPeriod) {
    periodStart_ = now;
    framesInPeriod_ = bytesInPeriod_ = 0;
  }
  readable_ = set.ready(socket_->fd()) && !throttled();
  if (readable_) lastReceived_ = now;
  BPS_TRY(checkSilence(now));
  if (now >= lastSent_ + heartbeatInterval_) {
    lastSent_ = now;
    if (flushed()) {  // if the peer does not read, the output queue must not grow
      socket_->queue(ownHeartbeat_);
      startClockSamples(kLaterClockSamples.least, kLaterClockSamples.most);
    }
  }
  // Ignore write errors, because next() may still read the peer's last frames from a broken connection.
  [[maybe_unused]] const bool written = socket_->flush().ok();
  return {};
}

bool Link::throttled() const { return framesInPeriod_ >= kFramesPerPeriod || bytesInPeriod_ >= kBytesPerPeriod; }

Status Link::checkSilence(TimePoint now) {
  peerSilent_ = now >= lastReceived_ + silenceTimeout_;
  if (!peerSilent_) return {};
  return failure(Code::kRemote, "{} has been silent for {:.1f} s", name_,
                 std::chrono::duration<double>(now - lastReceived_).count());
}

Status Link::declareDead(const Status& why, const std::string& member) {
  const Status told = failure(why.code(), "{}, says {}", why.message(), member);
  sendFailure(told);
  return told.clone();
}

void Link::sendFailure(const Status& failure) {
  send(FailureMessage{failure.code(), failure.message()});
  [[maybe_unused]] const bool written = socket_->flush().ok();
}

Result<std::optional<Frame>> Link::next() {
  while (readable_ && !throttled()) {
    Result<std::optional<Frame>> came = socket_->read();
    if (!came.ok()) return ended(came.error());
    std::optional<Frame> frame = std::move(came).value();
    ++framesInPeriod_;
    if (!frame) {
      readable_ = false;
      continue;
    }
    bytesInPeriod_ += frame->payload.size();
    if (!isOfLink(frame->header.type)) return frame;
    const Status handled = handleOwn(*frame);
    if (!handled.ok()) return protocolError(handled);
  }
  return std::optional<Frame>();
}

Status Link::handleOwn(const Frame& frame) {
  if (frame.header.type == MessageType::kClockRequest) {
    const ClockRequest request = BPS_TRY(decode<ClockRequest>(frame.payload));
    if (flushed()) socket_->queue(ClockReply{request.sentAt, steadyNanoseconds()});  // as for heartbeats
    [[maybe_unused]] const bool written = socket_->flush().ok();
  } else if (frame.header.type == MessageType::kClockReply) {
    const ClockReply reply = BPS_TRY(decode<ClockReply>(frame.payload));
    if (clock_.offset == nullptr) return {Code::kRemote, "an answer came to a request for the time that was not made"};
    clock_.offset->add({reply.sentAt, reply.at, steadyNanoseconds()});
    --clock_.least;
    --clock_.most;
    askForTime();
  } else {
    peerHeartbeat_ = BPS_TRY(decode<Heartbeat>(frame.payload));
    ++peerHeartbeats_;
  }
  return {};
}

void Link::measureClock(std::shared_ptr<ClockOffset> clock) {
  clock_.offset = std::move(clock);
  startClockSamples(kFirstClockSamples.least, kFirstClockSamples.most);
}

void Link::startClockSamples(int least, int most) {
  clock_.least = least;
  clock_.most = most;
  askForTime();
}

// Makes the next request, if another one is useful. Each answer leads to the next request.
void Link::askForTime() {
  if (clock_.offset == nullptr || clock_.most <= 0) return;
  if (clock_.least <= 0 && clock_.offset->points().back().uncertainty <= kGoodClockUncertainty) return;
  socket_->queue(ClockRequest{steadyNanoseconds()});
  [[maybe_unused]] const bool written = socket_->flush().ok();
}

Status Link::ended(const Status& why) const {
  switch (socket_->end()) {
    case ControlSocket::End::kBroken:
      return failure(Code::kRemote, "{} ended without goodbye ({})", name_, why.message());
    case ControlSocket::End::kForged:
      return failure(Code::kRemote, "the connection with {}: {}", name_, why.message());
    default:
      return protocolError(why);
  }
}

Status Link::protocolError(const Status& why) const {
  return failure(Code::kRemote, "{} broke the protocol: {}", name_, why.message());
}

}  // namespace bps
