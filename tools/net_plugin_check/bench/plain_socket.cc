#include "tools/net_plugin_check/bench/plain_socket.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "src/base/io/interfaces.h"
#include "src/base/io/socket.h"

namespace bps::check {
namespace {

constexpr size_t kMaxBytesPerCall = size_t{1} << 20;  // the same limit as in bps's plugin

Result<Address> interfaceAddress(Side& side) {
  const DeviceProperties properties = BPS_TRY(side.deviceProperties());
  Result<std::vector<Interface>> found = selectInterfaces("=" + properties.name);
  if (!found.ok())
    return failure(Code::kSystem, "device {} is not a network interface, so plain sockets cannot be compared",
                   properties.name);
  Address address = std::move(found).value().front().address;
  address.setPort(0);
  return address;
}

Status waitFor(Side& side, int fd, short events) {
  pollfd state{.fd = fd, .events = events, .revents = 0};
  const Deadline deadline = side.makeDeadline();
  while (::poll(&state, 1, deadline.leftMs()) <= 0)
    if (deadline.passed()) return {Code::kTimeout, "the plain sockets are not connected"};
  return {};
}

// Makes the socket blocking. Sends and receives get a timeout, so that none of them blocks forever.
void makeBlocking(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  const timeval timeout{.tv_sec = 10, .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
}

Result<UniqueFd> dial(Side& side, const Address& address) {
  UniqueFd socket = BPS_TRY(startConnect(address));
  BPS_TRY(waitFor(side, socket.get(), POLLOUT));
  BPS_TRY(connectResult(socket.get(), address));
  return socket;
}

}  // namespace

Result<std::vector<UniqueFd>> plainSockets(Side& side, size_t count) {
  std::vector<UniqueFd> sockets;
  if (side.sends()) {
    const Blob told = BPS_TRY(side.receiveFromPeer());
    sockaddr_storage storage{};
    std::memcpy(&storage, told.data(), std::min(told.size(), sizeof storage));
    const Address address(reinterpret_cast<const sockaddr*>(&storage), static_cast<socklen_t>(told.size()));
    for (size_t i = 0; i < count; ++i) sockets.push_back(BPS_TRY(dial(side, address)));
    return sockets;
  }
  const Address own = BPS_TRY(interfaceAddress(side));
  const UniqueFd listener = BPS_TRY(listenOn(own));
  const Address address = BPS_TRY(localAddress(listener.get()));
  const auto* bytes = reinterpret_cast<const uint8_t*>(address.data());
  BPS_TRY(side.sendToPeer({bytes, address.length()}));
  while (sockets.size() < count) {
    BPS_TRY(waitFor(side, listener.get(), POLLIN));
    std::optional<UniqueFd> socket = BPS_TRY(bps::acceptFrom(listener.get()));
    if (socket) sockets.push_back(std::move(*socket));
  }
  return sockets;
}

PlainStream::PlainStream(std::span<const UniqueFd> sockets, bool sends, std::span<uint8_t> memory, size_t piece)
    : sends_(sends), piece_(piece / sockets.size()) {
  const size_t each = memory.size() / piece * piece_;
  for (size_t i = 0; i < sockets.size(); ++i) {
    if (sockets.size() == 1) makeBlocking(sockets[i].get());
    sockets_.push_back({.fd = sockets[i].get(), .memory = memory.subspan(i * each, each)});
  }
}

void PlainStream::start(size_t bytes) {
  for (SocketState& state : sockets_) state.left = bytes / sockets_.size(), state.at = 0;
}

// Makes one system call for the rest of the piece, with at most kMaxBytesPerCall bytes.
Result<bool> PlainStream::moveSome(SocketState& state, int flags) const {
  const size_t most = std::min({state.left, piece_ - state.at % piece_, kMaxBytesPerCall});
  const ssize_t moved = sends_ ? ::send(state.fd, state.memory.data() + state.at, most, flags | MSG_NOSIGNAL)
                               : ::recv(state.fd, state.memory.data() + state.at, most, flags);
  if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (moved <= 0) return Status(Code::kRemote, "the plain connection has ended");
  state.left -= static_cast<size_t>(moved);
  state.at = (state.at + static_cast<size_t>(moved)) % state.memory.size();
  return true;
}

// With a single socket, the calls block, which is fastest. Several sockets are polled together.
Status PlainStream::run(Side& side) {
  std::vector<pollfd> waiting;
  const int wait = static_cast<int>(side.options().timeoutSeconds * 1000);
  while (true) {
    bool moved = false;
    waiting.clear();
    for (SocketState& state : sockets_) {
      if (state.left > 0) moved = BPS_TRY(moveSome(state, sockets_.size() > 1 ? MSG_DONTWAIT : 0)) || moved;
      if (state.left > 0)
        waiting.push_back({.fd = state.fd, .events = static_cast<short>(sends_ ? POLLOUT : POLLIN), .revents = 0});
    }
    if (waiting.empty()) return {};
    if (!moved && (sockets_.size() == 1 || ::poll(waiting.data(), waiting.size(), wait) == 0))
      return {Code::kTimeout, "the plain sockets make no progress"};
  }
}

Status drivePlain(Side& side, std::span<PlainStream* const> streams) {
  std::vector<Status> outcomes(streams.size());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < streams.size(); ++i) threads.emplace_back([&, i] { outcomes[i] = streams[i]->run(side); });
  outcomes[0] = streams[0]->run(side);
  for (std::thread& thread : threads) thread.join();
  for (Status& outcome : outcomes) BPS_TRY(std::move(outcome));
  return {};
}

}  // namespace bps::check
