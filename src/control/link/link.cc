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
    if (flushed()) socket_->queue(ownHeartbeat_);  // if the peer does not read, the output queue must not grow
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
    if (frame->header.type != MessageType::kHeartbeat) return frame;
    Result<Heartbeat> heartbeat = decode<Heartbeat>(frame->payload);
    if (!heartbeat.ok()) return protocolError(heartbeat.error());
    peerHeartbeat_ = std::move(heartbeat).value();
    ++peerHeartbeats_;
  }
  return std::optional<Frame>();
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
