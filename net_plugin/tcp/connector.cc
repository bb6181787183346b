#include "net_plugin/tcp/connector.h"

#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

#include "src/base/format.h"

namespace bps::plugin::tcp {
namespace {

// A link-local address means something only together with the interface to use, which is ours.
Address scoped(const Address& address, const std::string& interface) {
  sockaddr_in6 v6{};
  if (address.family() != AF_INET6) return address;
  v6 = *reinterpret_cast<const sockaddr_in6*>(address.data());
  if (!IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) return address;
  v6.sin6_scope_id = ::if_nametoindex(interface.c_str());
  return {reinterpret_cast<const sockaddr*>(&v6), sizeof v6};
}

}  // namespace

Connector::Connector(const Device& device, const HandleData& target, Carrier carrier, Deadline deadline)
    : address_(scoped(target.address, device.name)), hello_(encodeHello(target.token, carrier)), deadline_(deadline) {}

Status Connector::begin() {
  socket_ = BPS_TRY(startConnect(address_));
  state_ = State::kConnecting;
  return {};
}

Result<Progress> Connector::finishConnect() {
  pollfd state{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&state, 1, 0) <= 0) return Progress::kPending;
  BPS_TRY(connectResult(socket_.get(), address_));
  state_ = State::kGreeting;
  return Progress::kDone;
}

Result<Progress> Connector::greet() {
  while (sent_ < hello_.size()) {
    const ssize_t sent =
        ::send(socket_.get(), hello_.data() + sent_, hello_.size() - sent_, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return Progress::kPending;
    if (sent < 0) return systemFailure("cannot connect to " + address_.text(), errno);
    sent_ += static_cast<size_t>(sent);
  }
  return Progress::kDone;
}

Result<Progress> Connector::advance() {
  if (state_ == State::kIdle) BPS_TRY(begin());
  if (state_ == State::kConnecting && BPS_TRY(finishConnect()) == Progress::kPending) return Progress::kPending;
  return greet();
}

Result<UniqueFd> Connector::step() {
  if (BPS_TRY(advance()) == Progress::kDone) return std::move(socket_);
  if (deadline_.passed()) return failure(Code::kRemote, "cannot connect to {}: no answer in time", address_.text());
  return UniqueFd();
}

}  // namespace bps::plugin::tcp
