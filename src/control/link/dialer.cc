#include "src/control/link/dialer.h"

#include "src/base/format.h"
#include "src/control/link/printable.h"

namespace bps {
namespace {

constexpr std::chrono::milliseconds kShortPause(20), kLongPause(150);

// True if the socket is connected to itself. The kernel can do this if no process listens on a local port.
bool connectedToItself(int fd) {
  Result<Address> local = localAddress(fd);
  Result<Address> peer = peerAddress(fd);
  return local.ok() && peer.ok() && std::move(local).value().text() == std::move(peer).value().text();
}

}  // namespace

void Dialer::watch(PollSet& set) const {
  set.wakeAt(deadline_.at());
  switch (state_) {
    case State::kPausing:
      set.wakeAt(next_.at());
      break;
    case State::kConnecting:
      set.addWriter(fd_.get());
      break;
    case State::kHandshaking:
      set.add(handshake_->socket().fd(), handshake_->socket().wantsWrite());
      if (fresh_) set.wakeAt(Deadline::Clock::now());
      break;
  }
}

Result<Progress> Dialer::step(const PollSet& set) {
  if (deadline_.passed()) return Status(Code::kRemote, lastReason_);
  switch (state_) {
    case State::kPausing:
      return pause();
    case State::kConnecting:
      return connect(set);
    case State::kHandshaking:
      return handshake(set);
  }
  return Progress::kPending;
}

Result<Progress> Dialer::pause() {
  if (!next_.passed()) return Progress::kPending;
  Result<UniqueFd> started = startConnect(address());
  if (!started.ok()) {
    retry(started.error());
    return Progress::kPending;
  }
  fd_ = std::move(started).value();
  state_ = State::kConnecting;
  return Progress::kPending;
}

Result<Progress> Dialer::connect(const PollSet& set) {
  if (!set.ready(fd_.get())) return Progress::kPending;
  Status connected = connectResult(fd_.get(), address());
  if (connected.ok() && connectedToItself(fd_.get()))
    connected = failure(Code::kRemote, "cannot connect to {}: nobody listens", address().text());
  if (!connected.ok()) {
    retry(connected);
    return Progress::kPending;
  }
  lastReason_ = fmt::format("{} does not answer the handshake", address().text());
  handshake_ = std::make_unique<ConnectingHandshake>(std::make_unique<ControlSocket>(std::move(fd_)), args_.credentials,
                                                     args_.purpose, args_.job);
  fresh_ = true;
  state_ = State::kHandshaking;
  return Progress::kPending;
}

Result<Progress> Dialer::handshake(const PollSet& set) {
  if (!fresh_ && !set.ready(handshake_->socket().fd())) return Progress::kPending;
  fresh_ = false;
  Result<Progress> progress = handshake_->step();
  if (progress.ok()) return progress;
  if (handshake_->final()) {
    const std::optional<Refusal>& refusal = handshake_->refusal();
    if (!refusal) return std::move(progress).status();
    return failure(refusal->code, "{} refuses the connection and says \"{}\"", address().text(),
                   printable(refusal->text));
  }
  retry(std::move(progress).status().within(address().text()));
  return Progress::kPending;
}

void Dialer::retry(const Status& why) {
  lastReason_ = why.message();
  handshake_.reset();
  fd_.reset();
  ++attempt_;
  next_ = Deadline::in(attempt_ < 4 ? kShortPause : kLongPause);
  state_ = State::kPausing;
}

}  // namespace bps
