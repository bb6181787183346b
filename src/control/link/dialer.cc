#include "src/control/link/dialer.h"

#include "src/base/format.h"
#include "src/control/link/printable.h"

namespace bps {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShortPause(20), kLongPause(150), kTurnPause(5);
// The time limits of a turn in the first cycle. They double in each of the next cycles.
constexpr milliseconds kConnectTime(300), kRelayTime(1000);
constexpr size_t kMaxDoublings = 3;

// True if the socket is connected to itself. The kernel can do this if no process listens on a local port.
bool connectedToItself(int fd) {
  Result<Address> local = localAddress(fd);
  Result<Address> peer = peerAddress(fd);
  return local.ok() && peer.ok() && std::move(local).value().text() == std::move(peer).value().text();
}

}  // namespace

Dialer::Dialer(DialArgs args, Deadline deadline) : args_(std::move(args)), deadline_(deadline) {
  if (args_.relays == nullptr) return;
  for (const Address& address : args_.addresses) args_.relays->expect(address);
}

size_t Dialer::directTurns() const {
  return args_.relays != nullptr && !args_.relays->dialsDirectly() ? 0 : args_.addresses.size();
}

size_t Dialer::turns() const {
  const size_t relays = args_.relays != nullptr ? args_.relays->neighbours().size() : 0;
  return directTurns() + relays * args_.addresses.size();
}

const Address& Dialer::address() const {
  const size_t direct = directTurns(), now = turn();
  return args_.addresses[(now < direct ? now : now - direct) % args_.addresses.size()];
}

const NeighbourRelay* Dialer::relay() const {
  const size_t direct = directTurns(), now = turn();
  return now < direct ? nullptr : &args_.relays->neighbours()[(now - direct) / args_.addresses.size()];
}

std::string Dialer::peerText() const {
  if (relay() == nullptr) return address().text();
  return fmt::format("{} (through the relay {})", address().text(), relay()->address.text());
}

std::string Dialer::withRelay(const std::string& why) const {
  return relay() == nullptr ? why : fmt::format("{} (the relay {})", why, relay()->where);
}

std::string Dialer::reasonText() const {
  if (reasons_[0].empty() && reasons_[1].empty()) return "no answer";
  return reasons_[0] + (reasons_[0].empty() || reasons_[1].empty() ? "" : "; ") + reasons_[1];
}

void Dialer::watch(PollSet& set) const {
  set.wakeAt(deadline_.at());
  if (state_ != State::kPausing) set.wakeAt(turnEnd_.at());
  switch (state_) {
    case State::kPausing:
      set.wakeAt(next_.at());
      break;
    case State::kConnecting:
      set.addWriter(fd_.get());
      break;
    case State::kAskingRelay:
      relayConnector_->watch(set);
      break;
    case State::kHandshaking:
      set.add(handshake_->socket().fd(), handshake_->socket().wantsWrite());
      if (fresh_) set.wakeAt(Deadline::Clock::now());
      break;
  }
}

Result<Progress> Dialer::step(const PollSet& set) {
  if (deadline_.passed()) return Status(Code::kRemote, reasonText());
  if (state_ != State::kPausing && turnEnd_.passed()) {
    retry(failure(Code::kRemote, "{} does not answer", peerText()));
    return Progress::kPending;
  }
  switch (state_) {
    case State::kPausing:
      return pause();
    case State::kConnecting:
      return connect(set);
    case State::kAskingRelay:
      return askRelay(set);
    case State::kHandshaking:
      return handshake(set);
  }
  return Progress::kPending;
}

milliseconds Dialer::turnTime() const {
  return (relay() == nullptr ? kConnectTime : kRelayTime) * (1U << std::min(cycle(), kMaxDoublings));
}

Result<Progress> Dialer::pause() {
  if (!next_.passed()) return Progress::kPending;
  // Without relays there is nothing else to try, so a turn has no limit.
  if (args_.relays != nullptr) turnEnd_ = Deadline::in(turnTime());
  const Status started = start();
  if (!started.ok()) retry(Status(started.code(), withRelay(started.message())));
  return Progress::kPending;
}

Status Dialer::start() {
  way_ = {};
  if (const NeighbourRelay* through = relay()) {
    relayConnector_ = BPS_TRY(RelayConnector::start(through->address, {RelayRequest::Kind::kForward, address()}));
    state_ = State::kAskingRelay;
    return {};
  }
  fd_ = BPS_TRY(startConnect(address()));
  state_ = State::kConnecting;
  return {};
}

Result<Progress> Dialer::askRelay(const PollSet& set) {
  Result<Progress> progress = relayConnector_->step(set);
  const bool answered = progress.ok();
  std::string refusal;
  if (!answered) refusal = progress.error().message();
  else if (std::move(progress).value() == Progress::kPending) return Progress::kPending;
  else refusal = relayConnector_->refusalText();
  if (!refusal.empty()) {
    // Keep the answer of a relay: it tells more than the silence of another one.
    retry(Status(Code::kRemote, answered || reasons_[1].empty() ? withRelay(refusal) : reasons_[1]));
    return Progress::kPending;
  }
  way_ = {relay()->address, relayConnector_->reply().hops};
  fd_ = relayConnector_->take();
  startHandshake();
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
  startHandshake();
  return Progress::kPending;
}

void Dialer::startHandshake() {
  if (args_.relays != nullptr) turnEnd_ = Deadline::in(milliseconds(args_.credentials.timeoutMs / 2));
  note(peerText() + " does not answer the handshake");
  handshake_ = std::make_unique<ConnectingHandshake>(std::make_unique<ControlSocket>(std::move(fd_)), args_.credentials,
                                                     args_.purpose, args_.job);
  fresh_ = true;
  state_ = State::kHandshaking;
}

Result<Progress> Dialer::handshake(const PollSet& set) {
  if (!fresh_ && !set.ready(handshake_->socket().fd())) return Progress::kPending;
  fresh_ = false;
  Result<Progress> progress = handshake_->step();
  if (progress.ok()) {
    const Progress made = std::move(progress).value();
    if (made == Progress::kDone && args_.relays != nullptr) args_.relays->reached(address(), way_);
    return made;
  }
  if (handshake_->final()) {
    const std::optional<Refusal>& refusal = handshake_->refusal();
    if (!refusal) return std::move(progress).status();
    return failure(refusal->code, "{} refuses the connection and says \"{}\"", peerText(), printable(refusal->text));
  }
  retry(std::move(progress).status().within(peerText()));
  return Progress::kPending;
}

void Dialer::retry(const Status& why) {
  note(why.message());
  handshake_.reset();
  fd_.reset();
  relayConnector_.reset();
  ++attempt_;
  const bool begins = args_.relays == nullptr || turn() == 0;
  const size_t tries = args_.relays == nullptr ? attempt_ : cycle();
  next_ = Deadline::in(!begins ? kTurnPause : tries < 4 ? kShortPause : kLongPause);
  state_ = State::kPausing;
}

}  // namespace bps
