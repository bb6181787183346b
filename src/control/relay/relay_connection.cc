#include "src/control/relay/relay_connection.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "src/base/io/socket.h"

namespace bps {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kRequestTime(2000), kConnectTime(2000);
constexpr size_t kBufferBytes = 16U << 10;
constexpr int kTurnsPerStep = 8;  // so that one connection does not hold up the others

bool wouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

RelayConnection::RelayConnection(UniqueFd client, milliseconds timeout)
    : client_(std::move(client)), timeout_(timeout), deadline_(Deadline::in(std::min(timeout, kRequestTime))) {}

void RelayConnection::watch(PollSet& set) const {
  set.wakeAt(deadline_.at());
  switch (state_) {
    case State::kRequest:
      return set.add(client_.get());
    case State::kConnecting:
      return set.addWriter(target_.get());
    case State::kAsking:
      return upstream_->watch(set);
    case State::kForwarding:
      watchSide(set, client_.get(), toClient_, toTarget_);
      watchSide(set, target_.get(), toTarget_, toClient_);
  }
}

// Watches a side only for what the relay can handle now. poll() would otherwise return at once again and again.
void RelayConnection::watchSide(PollSet& set, int fd, const Direction& output, const Direction& input) {
  const bool read = !input.ended && !input.waits();
  if (read) set.add(fd, output.waits());
  else if (output.waits()) set.addWriter(fd);
}

bool RelayConnection::step(const PollSet& set, const RelayTargets& targets) {
  if (deadline_.passed()) {
    if (state_ == State::kConnecting || state_ == State::kAsking) reply({RelayReply::Outcome::kBroken});
    return false;
  }
  switch (state_) {
    case State::kRequest:
      return !set.ready(client_.get()) || receiveRequest(targets);
    case State::kConnecting:
      return !set.ready(target_.get()) || connect(set);
    case State::kAsking:
      return ask(set);
    case State::kForwarding:
      return (!set.ready(client_.get()) && !set.ready(target_.get())) || forward();
  }
  return false;
}

bool RelayConnection::receiveRequest(const RelayTargets& targets) {
  std::array<uint8_t, RelayRequest::kBytes> bytes{};
  const ssize_t count = ::recv(client_.get(), bytes.data(), bytes.size() - request_.size(), 0);
  if (count < 0 && wouldBlock()) return true;
  if (count <= 0) return false;
  request_.insert(request_.end(), bytes.begin(), bytes.begin() + count);
  if (request_.size() < RelayRequest::kBytes) return true;
  Result<RelayRequest> request = decodeRelayRequest(std::span(request_).first<RelayRequest::kBytes>());
  return request.ok() && open(std::move(request).value(), targets);
}

// Takes the way to the target on which this process reached it.
bool RelayConnection::open(const RelayRequest& request, const RelayTargets& targets) {
  found_ = targets.find(request.target);
  const bool tooFar = found_.way.hops.size() >= RelayReply::kMaxHops;
  if (found_.outcome != RelayReply::Outcome::kConnected) return reply({found_.outcome});
  if (tooFar) return reply({RelayReply::Outcome::kNotYet});  // a shorter way may turn up
  if (request.kind == RelayRequest::Kind::kAsk) return reply({found_.outcome, {found_.self}});
  deadline_ = Deadline::in(std::min(timeout_, kConnectTime));
  address_ = request.target;
  if (found_.way.relay) {
    Result<RelayConnector> started = RelayConnector::start(*found_.way.relay, request);
    if (!started.ok()) return reply({RelayReply::Outcome::kBroken});
    upstream_ = std::move(started).value();
    state_ = State::kAsking;
    return true;
  }
  Result<UniqueFd> started = startConnect(request.target);
  if (!started.ok()) return reply({RelayReply::Outcome::kBroken});
  target_ = std::move(started).value();
  state_ = State::kConnecting;
  return true;
}

bool RelayConnection::connect(const PollSet& set) {
  if (!set.ready(target_.get())) return true;
  if (!connectResult(target_.get(), *address_).ok()) return reply({RelayReply::Outcome::kBroken});
  return reply({RelayReply::Outcome::kConnected, {found_.self}});
}

bool RelayConnection::ask(const PollSet& set) {
  Result<Progress> progress = upstream_->step(set);
  if (!progress.ok()) return reply({RelayReply::Outcome::kBroken});
  if (std::move(progress).value() == Progress::kPending) return true;
  RelayReply answer = upstream_->reply();
  if (answer.outcome != RelayReply::Outcome::kConnected) return reply({answer.outcome});
  target_ = upstream_->take();
  answer.hops.insert(answer.hops.begin(), found_.self);
  return reply(answer);
}

// The reply is the first output to the client, so the kernel takes it at once. Returns false if the connection ends.
bool RelayConnection::reply(const RelayReply& reply) {
  const auto bytes = encodeRelay(reply);
  const ssize_t count = ::send(client_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (count != static_cast<ssize_t>(bytes.size()) || reply.outcome != RelayReply::Outcome::kConnected || !target_)
    return false;
  state_ = State::kForwarding;
  deadline_ = Deadline::never();
  upstream_.reset();
  return forward();
}

bool RelayConnection::forward() {
  if (!pump(toTarget_, client_.get(), target_.get()) || !pump(toClient_, target_.get(), client_.get())) return false;
  if (toTarget_.ended && toClient_.ended) return false;
  const bool limited = toTarget_.waits() || toClient_.waits() || toTarget_.ended || toClient_.ended;
  const bool moved = toTarget_.moved || toClient_.moved;
  if (!limited) deadline_ = Deadline::never();
  else if (moved || deadline_.at() == Deadline::never().at()) deadline_ = Deadline::in(timeout_);
  return true;
}

// Moves bytes until a side is not ready. Returns false if one of the two connections has broken.
bool RelayConnection::pump(Direction& direction, int from, int to) {
  direction.moved = false;
  for (int turn = 0; turn < kTurnsPerStep && !direction.ended; ++turn) {
    if (direction.waits()) {
      const size_t size = direction.pending.size() - direction.sent;
      const ssize_t count = ::send(to, direction.pending.data() + direction.sent, size, MSG_NOSIGNAL);
      if (count < 0) return wouldBlock();
      direction.sent += static_cast<size_t>(count);
      direction.moved = true;
      continue;
    }
    std::array<uint8_t, kBufferBytes> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): recv fills it
    const ssize_t count = ::recv(from, buffer.data(), buffer.size(), 0);
    direction.pending = {};
    direction.sent = 0;
    if (count < 0) return wouldBlock();
    direction.ended = count == 0;
    direction.pending.assign(buffer.begin(), buffer.begin() + count);
  }
  return !direction.ended || ::shutdown(to, SHUT_WR) == 0;
}

}  // namespace bps
