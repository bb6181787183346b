#include "src/control/link/doorman.h"

#include <algorithm>

#include "src/base/log.h"

namespace bps {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kMostPatience(5000);  // with a stranger, whatever the time-out
constexpr milliseconds kYouth(1000);         // a handshake older than this may be pushed out by a newcomer
constexpr milliseconds kFarewell(1000);      // for a refused peer to read why
constexpr milliseconds kShortage(200);       // before accepting again when descriptors are short

}  // namespace

Doorman::Doorman(UniqueFd listener, Credentials credentials, Purpose purpose, uint64_t job)
    : listener_(std::move(listener)), credentials_(credentials), purpose_(purpose), job_(job) {}

Result<Doorman> Doorman::create(const Address& address, const Credentials& credentials, Purpose purpose, uint64_t job) {
  return Doorman(BPS_TRY(listenOn(address)), credentials, purpose, job);
}

bool Doorman::hasRoom() const { return strangers_.size() < kMostStrangers || strangers_.front().since.passed(); }

void Doorman::watch(PollSet& set) const {
  if (listener_ && !pause_.passed()) set.wakeAt(pause_.at());
  else if (listener_ && hasRoom()) set.add(listener_.get());
  else if (listener_) set.wakeAt(strangers_.front().since.at());
  for (const Stranger& stranger : strangers_) {
    const ControlSocket& socket = stranger.handshake.socket();
    set.add(socket.fd(), socket.wantsWrite());
    set.wakeAt(stranger.deadline.at());
  }
  for (const Leaving& peer : leaving_) {
    set.add(peer.socket->fd(), peer.socket->wantsWrite());
    set.wakeAt(peer.deadline.at());
  }
}

std::vector<Peer> Doorman::step(const PollSet& set) {
  accept(set);
  std::vector<Peer> welcome;
  for (auto it = strangers_.begin(); it != strangers_.end();) {
    Stranger& stranger = *it;
    Result<Progress> progress = Progress::kPending;
    if (stranger.fresh || set.ready(stranger.handshake.socket().fd())) progress = stranger.handshake.step();
    if (progress.ok() && stranger.deadline.passed()) progress = Status(Code::kRemote, "the handshake took too long");
    stranger.fresh = false;
    if (!progress.ok()) {
      refused(stranger, progress.error());
    } else if (std::move(progress).value() == Progress::kPending) {
      ++it;
      continue;
    } else {
      welcome.push_back(stranger.handshake.take());
    }
    it = strangers_.erase(it);
  }
  sayFarewells();
  return welcome;
}

void Doorman::accept(const PollSet& set) {
  if (!listener_ || !set.ready(listener_.get())) return;
  while (hasRoom()) {
    Result<std::optional<UniqueFd>> accepted = acceptFrom(listener_.get());
    if (!accepted.ok()) {
      logWarn(Subsystem::kNet, "{}; trying again in {} ms", accepted.error().message(), kShortage.count());
      pause_ = Deadline::in(kShortage);
      return;
    }
    std::optional<UniqueFd> fd = std::move(accepted).value();
    if (!fd) return;
    admit(std::move(*fd));
  }
}

void Doorman::admit(UniqueFd fd) {
  if (strangers_.size() >= kMostStrangers) {
    refused(strangers_.front(), Status(Code::kRemote, "too many connections are being made, and this one is slow"));
    strangers_.pop_front();
  }
  const auto patience = std::min(kMostPatience, milliseconds(credentials_.timeoutMs) / 2);
  strangers_.push_back(
      {AcceptingHandshake(std::make_unique<ControlSocket>(std::move(fd)), credentials_, purpose_, job_),
       Deadline::in(kYouth), Deadline::in(patience)});
}

void Doorman::refused(Stranger& stranger, const Status& why) {
  ControlSocket& socket = stranger.handshake.socket();
  logWarn(Subsystem::kNet, "connection from {} refused: {}", socket.peer(), why.message());
  if (socket.broken() || leaving_.size() >= kMostStrangers) return;
  leaving_.push_back({stranger.handshake.take().socket, Deadline::in(kFarewell)});
}

void Doorman::dismiss(std::unique_ptr<ControlSocket> socket, const Refusal& refusal) {
  logWarn(Subsystem::kNet, "connection from {} refused: {}", socket->peer(), refusal.text);
  socket->queue(refusal);
  seeOff(std::move(socket));
}

void Doorman::seeOff(std::unique_ptr<ControlSocket> socket) {
  leaving_.push_back({std::move(socket), Deadline::in(kFarewell)});
}

// Writes the last words, then reads until the peer has gone too: closing with unread input would destroy them.
void Doorman::sayFarewells() {
  leaving_.remove_if([](Leaving& peer) {
    if (peer.deadline.passed()) return true;
    if (!peer.said) {
      Result<Progress> progress = peer.socket->flush();
      if (!progress.ok()) return true;
      if (std::move(progress).value() == Progress::kPending) return false;
      peer.socket->shutdownWrite();
      peer.said = true;
    }
    return peer.socket->drain() == Progress::kDone;
  });
}

void Doorman::close() {
  listener_.reset();
  strangers_.clear();
}

}  // namespace bps
