#include "src/base/io/socket.h"

#include <netinet/tcp.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "src/base/format.h"
#include "src/base/io/interfaces.h"

namespace bps {

namespace {

// Adds a hint to the system's error text. The hint names ports or addresses that would work.
Status cannotListen(const Address& address, int error) {
  std::string hint;
  if (error == EACCES) hint = "; ports below 1024 need root or CAP_NET_BIND_SERVICE";
  if (error == EADDRNOTAVAIL) {
    for (const Interface& each : interfaceAddresses()) {
      Address own = each.address;
      own.setPort(address.port());
      hint += fmt::format("{}{} on {}", hint.empty() ? "; this machine has " : ", ", own.text(), each.name);
    }
  }
  return {Code::kSystem, systemFailure("cannot listen on " + address.text(), error).message() + hint};
}

// On failure of bind or listen, sets `error` to the errno value.
Result<UniqueFd> listenAt(const Address& address, int backlog, int& error) {
  UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return systemFailure("socket", errno);
  const int one = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (::bind(fd.get(), address.data(), address.length()) == 0 && ::listen(fd.get(), backlog) == 0) return fd;
  error = errno;
  return cannotListen(address, error);
}

Result<Address> addressOf(int fd, int (*query)(int, sockaddr*, socklen_t*), const char* name) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  if (query(fd, reinterpret_cast<sockaddr*>(&storage), &length) != 0) return systemFailure(name, errno);
  return Address(reinterpret_cast<const sockaddr*>(&storage), length);
}

}  // namespace

Result<UniqueFd> listenOn(const Address& address, int backlog) {
  int error = 0;
  return listenAt(address, backlog, error);
}

Result<std::optional<UniqueFd>> listenIfFree(const Address& address, int backlog) {
  int error = 0;
  Result<UniqueFd> listening = listenAt(address, backlog, error);
  if (listening.ok()) return std::optional<UniqueFd>(std::move(listening).value());
  if (error == EADDRINUSE) return std::optional<UniqueFd>();
  return std::move(listening).status();
}

// The search starts after the port of the previous call, and at a different port in each process.
// The first port that the search tries is therefore usually free.
Result<UniqueFd> listenOn(const Address& address, const PortRange& ports, int backlog) {
  static std::atomic<uint32_t> next{static_cast<uint32_t>(::getpid()) * 7919U};
  if (address.port() != 0 || ports.first == 0) return listenOn(address, backlog);
  const uint32_t count = ports.last - ports.first + 1U, begin = next.fetch_add(1);
  Address tried = address;
  for (uint32_t i = 0; i < count; ++i) {
    tried.setPort(static_cast<uint16_t>(ports.first + (begin + i) % count));
    int error = 0;
    Result<UniqueFd> listening = listenAt(tried, backlog, error);
    if (listening.ok()) next.store(begin + i + 1);
    if (listening.ok() || error != EADDRINUSE) return listening;
  }
  return failure(Code::kSystem, "no port of {}-{} is free on {} (BPS_PORT_RANGE, or --data-ports of a server)",
                 ports.first, ports.last, address.host());
}

Result<Address> localAddress(int fd) { return addressOf(fd, ::getsockname, "getsockname"); }
Result<Address> peerAddress(int fd) { return addressOf(fd, ::getpeername, "getpeername"); }

void setNoDelay(int fd) {
  const int one = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

Result<UniqueFd> startConnect(const Address& address, const Address* from) {
  UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return systemFailure("socket", errno);
  setNoDelay(fd.get());
  if (from != nullptr) {
    // The kernel chooses the port during connect. Connections to different peers can then share a
    // local port.
    const int one = 1;
    ::setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
    if (::bind(fd.get(), from->data(), from->length()) != 0)
      return systemFailure("cannot connect from " + from->text(), errno);
  }
  if (::connect(fd.get(), address.data(), address.length()) != 0 && errno != EINPROGRESS && errno != EINTR)
    return systemFailure("cannot connect to " + address.text(), errno);
  return fd;
}

Status connectResult(int fd, const Address& address) {
  int error = 0;
  socklen_t length = sizeof error;
  if (::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0) return systemFailure("cannot connect to " + address.text(), error);
  return {};
}

Result<std::optional<UniqueFd>> acceptFrom(int listenFd) {
  UniqueFd fd(::accept4(listenFd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd) {
    setNoDelay(fd.get());
    return std::optional<UniqueFd>(std::move(fd));
  }
  // Only a lack of resources is an error of the listener. Every other error concerns one
  // connection, which no longer exists.
  if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) return systemFailure("accept", errno);
  return std::optional<UniqueFd>();
}

}  // namespace bps
