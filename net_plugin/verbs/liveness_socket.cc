#include "net_plugin/verbs/liveness_socket.h"

#include <sys/socket.h>

#include <cerrno>

#include "src/base/format.h"

namespace bps::plugin::verbs {

LivenessSocket::LivenessSocket(UniqueFd socket) : socket_(std::move(socket)) {
  Result<Address> address = peerAddress(socket_.get());
  peer_ = address.ok() ? std::move(address).value().text() : "a disconnected peer";
}

// A connection sends only a few short messages, which always fit into the socket buffer.
Status LivenessSocket::sendMessage(std::span<const uint8_t> message) const {
  const ssize_t sent = ::send(socket_.get(), message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent == static_cast<ssize_t>(message.size())) return {};
  return {Code::kRemote, systemFailure("sending to " + peer_, sent < 0 ? errno : ENOBUFS).message()};
}

LivenessSocket::Event LivenessSocket::receiveMessage(std::span<uint8_t> message) {
  const ssize_t got = ::recv(socket_.get(), message.data() + got_, message.size() - got_, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Event::kNothing;
  if (got <= 0) return Event::kHangup;
  got_ += static_cast<size_t>(got);
  if (got_ < message.size()) return Event::kNothing;
  got_ = 0;
  return Event::kMessage;
}

}  // namespace bps::plugin::verbs
