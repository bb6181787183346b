#include "net_plugin/tcp/connector.h"

#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "net_plugin/tcp/options.h"
#include "net_plugin/tcp/route.h"
#include "src/base/format.h"

namespace bps::plugin::tcp {
namespace {

// A link-local address needs a network interface as its scope. This function sets the interface of
// this device.
Address scoped(const Address& address, const std::string& interface) {
  sockaddr_in6 v6{};
  if (address.family() != AF_INET6) return address;
  v6 = *reinterpret_cast<const sockaddr_in6*>(address.data());
  if (!IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) return address;
  v6.sin6_scope_id = ::if_nametoindex(interface.c_str());
  return {reinterpret_cast<const sockaddr*>(&v6), sizeof v6};
}

}  // namespace

Connector::Connector(const TcpInterface& device, const HandleData& target, Carrier carrier, Deadline deadline)
    : address_(scoped(target.address, device.name)),
      token_(target.token),
      carrier_(carrier),
      sockets_(carrier == Carrier::kVerbs ? 1 : target.sockets),
      peerTimeout_(device.peerTimeout),
      deadline_(deadline) {
  if (isRoutedThrough(device.name, device.address, address_)) sourceAddress_ = device.address;
}

Status Connector::startConnects() {
  Hello hello{.sockets = sockets_, .carrier = carrier_};
  BPS_TRY(fillRandom(&hello.connection, sizeof hello.connection));
  for (; hello.index < sockets_; ++hello.index) {
    UniqueFd socket = BPS_TRY(startConnect(address_, sourceAddress_ ? &*sourceAddress_ : nullptr));
    setOptions(socket.get(), sockets_, peerTimeout_);
    connectingSockets_.push_back({.socket = std::move(socket), .hello = encodeHello(token_, hello)});
  }
  return {};
}

Result<Progress> Connector::finishConnect(ConnectingSocket& connecting) const {
  pollfd state{.fd = connecting.socket.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&state, 1, 0) <= 0) return Progress::kPending;
  BPS_TRY(connectResult(connecting.socket.get(), address_));
  connecting.connected = true;
  return Progress::kDone;
}

Result<Progress> Connector::sendHello(ConnectingSocket& connecting) const {
  if (!connecting.connected && BPS_TRY(finishConnect(connecting)) == Progress::kPending) return Progress::kPending;
  while (connecting.sent < connecting.hello.size()) {
    const ssize_t sent = ::send(connecting.socket.get(), connecting.hello.data() + connecting.sent,
                                connecting.hello.size() - connecting.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return Progress::kPending;
    if (sent < 0) return systemFailure("cannot connect to " + address_.text(), errno);
    connecting.sent += static_cast<size_t>(sent);
  }
  return Progress::kDone;
}

Result<std::vector<UniqueFd>> Connector::step() {
  if (connectingSockets_.empty()) BPS_TRY(startConnects());
  bool done = true;
  for (ConnectingSocket& connecting : connectingSockets_)
    done = BPS_TRY(sendHello(connecting)) == Progress::kDone && done;
  std::vector<UniqueFd> sockets;
  if (done)
    for (ConnectingSocket& connecting : connectingSockets_) sockets.push_back(std::move(connecting.socket));
  else if (deadline_.passed())
    return failure(Code::kRemote, "cannot connect to {}: no answer in time", address_.text());
  return sockets;
}

}  // namespace bps::plugin::tcp
