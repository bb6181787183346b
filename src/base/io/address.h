// Address: an IPv4 or IPv6 address with its port. HostPort: a host name or address with a port, as a user writes it.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "src/base/status.h"

namespace bps {

class Address {
 public:
  Address() = default;
  Address(const sockaddr* address, socklen_t length);
  // `ip` has 4 or 16 bytes in network order. IPv4 addresses ignore `scope`.
  static Address of(std::span<const uint8_t> ip, uint16_t port, uint32_t scope = 0);

  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const { return length_; }
  int family() const { return storage_.ss_family; }
  uint16_t port() const;
  void setPort(uint16_t port);
  std::span<const uint8_t> ip() const;  // 4 bytes for IPv4, 16 bytes for IPv6
  uint32_t scope() const { return family() == AF_INET6 ? in6().sin6_scope_id : 0; }
  bool isAny() const;
  bool isLoopback() const;
  // Returns the wildcard address of the same family, with the same port.
  Address any() const;
  std::string text() const;  // "10.0.0.7:7700", "[fe80::1]:7700"
  std::string host() const;  // "10.0.0.7", "fe80::1"

 private:
  const sockaddr_in& in4() const { return reinterpret_cast<const sockaddr_in&>(storage_); }
  const sockaddr_in6& in6() const { return reinterpret_cast<const sockaddr_in6&>(storage_); }

  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

struct HostPort {
  std::string host;
  uint16_t port = 0;
};

// Parses "ADDR:PORT" or "[ADDR]:PORT" with a numeric address.
Result<Address> parseAddress(std::string_view text);

// Parses "host:port" or "[v6]:port". If the text has no port, the result has `defaultPort`. A
// `defaultPort` of 0 means that the port is required. Does not look up the host.
Result<HostPort> parseHostPort(std::string_view text, uint16_t defaultPort);

}  // namespace bps
