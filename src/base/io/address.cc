#include "src/base/io/address.h"

#include <arpa/inet.h>
#include <netdb.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "src/base/format.h"

namespace bps {

Address::Address(const sockaddr* address, socklen_t length) : length_(std::min<socklen_t>(length, sizeof storage_)) {
  std::memcpy(&storage_, address, length_);
}

Address Address::of(std::span<const uint8_t> ip, uint16_t port, uint32_t scope) {
  if (ip.size() == sizeof(in_addr)) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, ip.data(), sizeof v4.sin_addr);
    return {reinterpret_cast<const sockaddr*>(&v4), sizeof v4};
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  v6.sin6_scope_id = scope;
  std::memcpy(&v6.sin6_addr, ip.data(), sizeof v6.sin6_addr);
  return {reinterpret_cast<const sockaddr*>(&v6), sizeof v6};
}

uint16_t Address::port() const { return ntohs(family() == AF_INET6 ? in6().sin6_port : in4().sin_port); }

std::span<const uint8_t> Address::ip() const {
  if (family() == AF_INET6) return std::span(in6().sin6_addr.s6_addr);
  return {reinterpret_cast<const uint8_t*>(&in4().sin_addr), sizeof(in_addr)};
}

void Address::setPort(uint16_t port) {
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6*>(&storage_)->sin6_port = htons(port);
  else reinterpret_cast<sockaddr_in*>(&storage_)->sin_port = htons(port);
}

bool Address::isAny() const {
  if (family() == AF_INET6) return IN6_IS_ADDR_UNSPECIFIED(&in6().sin6_addr);
  return in4().sin_addr.s_addr == htonl(INADDR_ANY);
}

bool Address::isLoopback() const {
  if (family() == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&in6().sin6_addr);
  return (ntohl(in4().sin_addr.s_addr) >> 24) == 127;
}

Address Address::any() const {
  Address all = *this;
  if (family() == AF_INET6) reinterpret_cast<sockaddr_in6*>(&all.storage_)->sin6_addr = in6addr_any;
  else reinterpret_cast<sockaddr_in*>(&all.storage_)->sin_addr.s_addr = htonl(INADDR_ANY);
  return all;
}

std::string Address::host() const {
  std::array<char, NI_MAXHOST> host{};
  if (length_ == 0 || ::getnameinfo(data(), length_, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "?";
  return host.data();
}

std::string Address::text() const {
  if (length_ == 0) return "?";
  return family() == AF_INET6 ? fmt::format("[{}]:{}", host(), port()) : fmt::format("{}:{}", host(), port());
}

Result<Address> parseAddress(std::string_view text) {
  const HostPort where = BPS_TRY(parseHostPort(text, 0));
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(where.host.c_str(), nullptr, &hints, &found) != 0)
    return failure(Code::kInvalidArgument, "{} is not an IP address", where.host);
  Address address(found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  address.setPort(where.port);
  return address;
}

Result<HostPort> parseHostPort(std::string_view text, uint16_t defaultPort) {
  const auto bad = [&](const char* why) {
    return failure(Code::kInvalidArgument, "\"{}\" is not host:port: {}", text, why);
  };
  HostPort out;
  std::string_view rest = text;
  if (!rest.empty() && rest.front() == '[') {
    const size_t close = rest.find(']');
    if (close == std::string_view::npos) return bad("no closing bracket");
    out.host = rest.substr(1, close - 1);
    rest.remove_prefix(close + 1);
  } else {
    const size_t colon = rest.rfind(':');
    out.host = rest.substr(0, colon);
    rest = colon == std::string_view::npos ? std::string_view() : rest.substr(colon);
  }
  if (out.host.empty()) return bad("no host");
  if (out.host.find_first_of(" \t\r\n") != std::string::npos) return bad("the host contains a space");
  if (rest.empty()) {
    if (defaultPort == 0) return bad("no port");
    out.port = defaultPort;
    return out;
  }
  unsigned port = 0;
  auto [end, error] = std::from_chars(rest.data() + 1, rest.data() + rest.size(), port);
  if (rest.front() != ':' || error != std::errc{} || end != rest.data() + rest.size() || port > 65535)
    return bad("the port is not a number up to 65535");
  out.port = static_cast<uint16_t>(port);
  return out;
}

}  // namespace bps
