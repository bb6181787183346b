#include "src/control/link/link.h"

#include <algorithm>

#include "src/base/format.h"

namespace bps {
namespace {

using std::chrono::milliseconds;
// What is read of one peer in a period: no peer needs as much, and it costs a small part of a processor.
constexpr milliseconds kPeriod(10);
constexpr size_t kFramesPerPeriod = 64, kBytesPerPeriod = 1U << 20;
constexpr milliseconds kMostPulse(30000);  // what lies between forgets connections that are idle for minutes
constexpr uint32_t kLeastTimeoutMs = 100;  // whatever a peer says, no heartbeat more often than every 10 ms

}  // namespace

Link::Link(Peer peer, std::string name, uint32_t timeoutMs)
    : socket_(std::move(peer.socket)), name_(std::move(name)), peerTimeoutMs_(peer.timeoutMs) {
  setTimeout(timeoutMs);
  heard_ = beaten_ = ticked_ = period_ = Deadline::Clock::now();
}

void Link::setTimeout(uint32_t timeoutMs) {
  silence_ = milliseconds(std::max(timeoutMs, kLeastTimeoutMs) / 2);
  const milliseconds tenth(std::max(std::min(timeoutMs, peerTimeoutMs_), kLeastTimeoutMs) / 10);
  pulse_ = std::min(tenth, kMostPulse);
}

void Link::watch(PollSet& set) const {
  if (!throttled()) set.add(socket_->fd(), socket_->wantsWrite());
  else set.wakeAt(period_ + kPeriod);
  set.wakeAt(std::min(beaten_ + pulse_, heard_ + silence_));
}

Status Link::tick(const PollSet& set) {
  const TimePoint now = Deadline::Clock::now();
  if (now - ticked_ > silence_ / 2) heard_ = now;
  ticked_ = now;
  if (now >= period_ + kPeriod) {
    period_ = now;
    taken_ = weight_ = 0;
  }
  readable_ = set.ready(socket_->fd()) && !throttled();
  if (readable_) heard_ = now;
  BPS_TRY(checkSilence(now));
  if (now >= beaten_ + pulse_) {
    beaten_ = now;
    if (flushed()) socket_->queue(own_);  // to a peer that does not read: what there is must do
  }
  // A broken connection may still hold the peer's last words: what next() finds counts, not that we cannot write.
  [[maybe_unused]] const bool written = socket_->flush().ok();
  return {};
}

bool Link::throttled() const { return taken_ >= kFramesPerPeriod || weight_ >= kBytesPerPeriod; }

Status Link::checkSilence(TimePoint now) {
  silent_ = now >= heard_ + silence_;
  if (!silent_) return {};
  return failure(Code::kRemote, "{} has been silent for {:.1f} s", name_,
                 std::chrono::duration<double>(now - heard_).count());
}

Status Link::giveUp(const Status& why, const std::string& member) {
  const Status told = failure(why.code(), "{}, says {}", why.message(), member);
  tell(told);
  return told.clone();
}

void Link::tell(const Status& failure) {
  send(FailureMessage{failure.code(), failure.message()});
  [[maybe_unused]] const bool written = socket_->flush().ok();
}

Result<std::optional<Frame>> Link::next() {
  while (readable_ && !throttled()) {
    Result<std::optional<Frame>> came = socket_->read();
    if (!came.ok()) return ended(came.error());
    std::optional<Frame> frame = std::move(came).value();
    ++taken_;
    if (!frame) {
      readable_ = false;
      continue;
    }
    weight_ += frame->payload.size();
    if (frame->header.type != MessageType::kHeartbeat) return frame;
    Result<Heartbeat> heartbeat = decode<Heartbeat>(frame->payload);
    if (!heartbeat.ok()) return protocolError(heartbeat.error());
    peers_ = std::move(heartbeat).value();
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
