#include "net_plugin/tcp/listener.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "net_plugin/log.h"
#include "net_plugin/tcp/options.h"
#include "src/base/format.h"

namespace bps::plugin::tcp {
namespace {

// The limit can be short, because a peer sends its hello as soon as it is connected.
constexpr std::chrono::seconds kHelloTimeout{5};

}  // namespace

Result<std::unique_ptr<Listener>> Listener::create(const TcpInterface& device) {
  UniqueFd socket = BPS_TRY(listenOn(device.address, device.ports));
  HandleData handle;
  handle.address = BPS_TRY(localAddress(socket.get()));
  handle.token = BPS_TRY(randomToken());
  handle.sockets = device.sockets;
  return std::unique_ptr<Listener>(new Listener(std::move(socket), handle, device.peerTimeout));
}

// Accepts at most kMaxPendingSockets sockets per call. If that many sockets are pending, or the
// process has no free descriptor, the oldest pending socket is rejected.
Status Listener::acceptSockets() {
  for (size_t i = 0; i < kMaxPendingSockets; ++i) {
    if (std::any_of(pendingConnections_.begin(), pendingConnections_.end(), isComplete)) return {};
    Result<std::optional<UniqueFd>> accepted = acceptFrom(socket_.get());
    if (pendingSockets_.size() == kMaxPendingSockets || (!accepted.ok() && !pendingSockets_.empty())) {
      reject(pendingSockets_.front().socket, Status(Code::kRemote, "too many peers that have sent no hello"));
      pendingSockets_.erase(pendingSockets_.begin());
      if (!accepted.ok()) continue;
    }
    std::optional<UniqueFd> socket = BPS_TRY(std::move(accepted));
    if (!socket) return {};
    pendingSockets_.push_back({std::move(*socket), Deadline::in(kHelloTimeout), {}, 0});
    readHellosFrom(pendingSockets_.size() - 1);  // done now, before a later socket can displace this socket
  }
  return {};
}

Result<std::optional<Hello>> Listener::readHello(PendingSocket& peer) const {
  while (peer.got < peer.hello.size()) {
    const ssize_t got =
        ::recv(peer.socket.get(), peer.hello.data() + peer.got, peer.hello.size() - peer.got, MSG_DONTWAIT);
    if (got == 0) return Status(Code::kRemote, "it hung up");
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno != EAGAIN) return systemFailure("recv", errno);
    if (got < 0 && peer.deadline.passed()) return Status(Code::kRemote, "it sent no hello in time");
    if (got < 0) return std::optional<Hello>();
    peer.got += static_cast<size_t>(got);
  }
  return std::optional<Hello>(BPS_TRY(parseHello(peer.hello, handle_.token)));
}

void Listener::readHellosFrom(size_t first) {
  for (size_t i = first; i < pendingSockets_.size();) {
    PendingSocket& peer = pendingSockets_[i];
    const Status outcome = [&]() -> Status {
      const std::optional<Hello> hello = BPS_TRY(readHello(peer));
      return hello ? addSocket(*hello, peer.socket) : Status();
    }();
    if (!outcome.ok()) reject(peer.socket, outcome);
    if (!outcome.ok() || !peer.socket) pendingSockets_.erase(pendingSockets_.begin() + static_cast<std::ptrdiff_t>(i));
    else ++i;
  }
}

// Called for a hello whose MAC is valid. The peer has the handle, or it replays the hello of a peer
// that has the handle.
Status Listener::addSocket(const Hello& hello, UniqueFd& socket) {
  const auto same = [&](const PendingConnection& pending) { return pending.connection == hello.connection; };
  auto pending = std::find_if(pendingConnections_.begin(), pendingConnections_.end(), same);
  if (pending == pendingConnections_.end()) {
    BPS_TRY(checkNotReplayed(hello.connection));
    if (pendingConnections_.size() == kMaxPendingConnections) pendingConnections_.erase(pendingConnections_.begin());
    const Deadline deadline = Deadline::in(std::max<PeerTimeout>(kHelloTimeout, peerTimeout_));
    pendingConnections_.push_back({hello.connection, hello.carrier, deadline, std::vector<UniqueFd>(hello.sockets), 0});
    pending = std::prev(pendingConnections_.end());
  }
  if (pending->sockets.size() != hello.sockets || pending->sockets[hello.index])
    return failure(Code::kRemote, "socket {} of {} contradicts the other sockets of its connection", hello.index,
                   hello.sockets);
  setOptions(socket.get(), hello.sockets, peerTimeout_);
  pending->sockets[hello.index] = std::move(socket);
  ++pending->arrived;
  return {};
}

Status Listener::checkNotReplayed(uint64_t connection) {
  if (std::find(knownConnections_.begin(), knownConnections_.end(), connection) != knownConnections_.end())
    return {Code::kRemote, "it repeats the hello of an earlier connection"};
  if (knownConnections_.size() == kMaxConnections)
    return failure(Code::kRemote, "this listener has accepted {} connections, which is its limit", kMaxConnections);
  knownConnections_.push_back(connection);
  return {};
}

void Listener::reject(const UniqueFd& socket, const Status& why) {
  if (++rejectedCount_ > kMaxLoggedRejections) return;
  Result<Address> from = peerAddress(socket.get());
  logInfo("{}: rejected a connection from {}: {}", handle_.address.text(),
          from.ok() ? std::move(from).value().text() : "?", why.message());
}

Listener::AcceptedConnection Listener::takeCompleteConnection() {
  std::erase_if(pendingConnections_,
                [](const PendingConnection& pending) { return !isComplete(pending) && pending.deadline.passed(); });
  const auto pending = std::find_if(pendingConnections_.begin(), pendingConnections_.end(), isComplete);
  if (pending == pendingConnections_.end()) return {};
  AcceptedConnection accepted{std::move(pending->sockets), pending->carrier};
  pendingConnections_.erase(pending);
  return accepted;
}

Result<Listener::AcceptedConnection> Listener::accept() {
  BPS_TRY(acceptSockets());
  readHellosFrom(0);
  return takeCompleteConnection();
}

}  // namespace bps::plugin::tcp
