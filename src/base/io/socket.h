// TCP addresses and non-blocking sockets. Errors name the address. Only HostLookup::wait() and resolve() block.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/env/port_range.h"
#include "src/base/io/fd.h"
#include "src/base/status.h"

namespace bps {

// An IPv4 or IPv6 address with its port.
class Address {
 public:
  Address() = default;
  Address(const sockaddr* address, socklen_t length);

  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t length() const { return length_; }
  int family() const { return storage_.ss_family; }
  uint16_t port() const;
  void setPort(uint16_t port);
  bool isAny() const;
  bool isLoopback() const;
  // Returns the wildcard address of the family with the same port.
  Address any() const;
  std::string text() const;  // "10.0.0.7:7700", "[fe80::1]:7700"
  std::string host() const;  // "10.0.0.7", "fe80::1"

 private:
  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

struct LookupRequest;
struct HostPort {
  std::string host;
  uint16_t port = 0;
};

// Parses "host:port" or "[v6]:port". If the text has no port, the result has `defaultPort`; 0 means that the port is
// required. Does not look up the host.
Result<HostPort> parseHostPort(std::string_view text, uint16_t defaultPort);

// HostLookup: an asynchronous lookup of one host name. The owner polls ended() or calls wait(), then takes the result.
//
// The C library cannot cancel a lookup that has started. The destructor does not wait for it: the memory that the C
// library's thread writes to stays allocated until the lookup ends.
class HostLookup {
 public:
  explicit HostLookup(const HostPort& where);
  HostLookup(const HostLookup&) = delete;
  HostLookup& operator=(const HostLookup&) = delete;
  ~HostLookup();

  bool ended() const;
  // Returns when the lookup has ended or the deadline has passed.
  void wait(Deadline deadline) const;
  // Returns the addresses. Call it once. Fails with the name of the host; fails if the lookup has not ended.
  Result<std::vector<Address>> take();

 private:
  std::unique_ptr<LookupRequest> request_;
};

// Looks up a host name and waits until the deadline. A failure names the host.
Result<std::vector<Address>> resolve(const HostPort& where, Deadline deadline);

// Opens a listening socket (SO_REUSEADDR, close-on-exec, non-blocking). Port 0 means any free port.
Result<UniqueFd> listenOn(const Address& address, int backlog = 512);
// As above, but port 0 means a free port of the range. If no port is free, the failure names the range.
Result<UniqueFd> listenOn(const Address& address, const PortRange& ports, int backlog = 512);
Result<Address> localAddress(int fd);
Result<Address> peerAddress(int fd);
// Starts a non-blocking connect. Call connectResult() once the descriptor polls writable. `from`, if not null, is the
// local address (port 0). `prepare` may set socket options before the connect.
Result<UniqueFd> startConnect(const Address& address, const Address* from = nullptr,
                              const std::function<void(int fd)>& prepare = nullptr);
// Returns the result of the connect (SO_ERROR).
Status connectResult(int fd, const Address& address);
// Accepts one connection (non-blocking, close-on-exec, TCP_NODELAY). Returns nullopt if none is pending.
Result<std::optional<UniqueFd>> acceptFrom(int listenFd);
void setNoDelay(int fd);

// One network interface that is up and has an address.
struct Interface {
  std::string name;
  Address address;
};
// Returns the interfaces that the filter selects, in NCCL's grammar: "eth,ib" are prefixes, "^docker,lo" means all but
// these prefixes, "=eth0" is an exact name. "=10.0.0.7" selects the interface with this address. An empty filter means
// all interfaces except lo, docker* and virbr*, or, if there are no others, all interfaces.
Result<std::vector<Interface>> selectInterfaces(const std::string& filter);

}  // namespace bps
