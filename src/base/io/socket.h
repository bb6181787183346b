// TCP addresses and non-blocking sockets, with errors that name the address. Nothing here waits but for a name service.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

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
  // The same port on every address of the family.
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

// "host:port", "[v6]:port"; without a port `defaultPort` (0: a port is required). Checks the form only.
Result<HostPort> parseHostPort(std::string_view text, uint16_t defaultPort);
// Looks one host name up beside its caller, which asks now and then whether it has ended. The C library's name service
// cannot be interrupted: a look-up that is given up goes on in a thread of the C library, and what that writes to stays
// until it has ended, so giving up never waits.
class HostLookup {
 public:
  explicit HostLookup(const HostPort& where);
  HostLookup(const HostLookup&) = delete;
  HostLookup& operator=(const HostLookup&) = delete;
  ~HostLookup();

  bool ended() const;
  // Until it has ended or the deadline passes.
  void wait(Deadline deadline) const;
  // The addresses, once. Fails naming the host; before the end it says that the name service does not answer.
  Result<std::vector<Address>> take();

 private:
  std::unique_ptr<LookupRequest> request_;
};

// Looks a name up, ending at the deadline. Fails naming the host.
Result<std::vector<Address>> resolve(const HostPort& where, Deadline deadline);

// Listens (SO_REUSEADDR, close-on-exec, non-blocking); port 0 takes a free one. "port in use" names the address.
Result<UniqueFd> listenOn(const Address& address, int backlog = 512);
// As listenOn(); port 0 takes a free one of the range. A failure names the range if it is full.
Result<UniqueFd> listenOn(const Address& address, const PortRange& ports, int backlog = 512);
Result<Address> localAddress(int fd);
Result<Address> peerAddress(int fd);
// Starts a connect, from the address `from` (port 0) if it is given. Finish it with connectResult() once the descriptor
// polls writable.
Result<UniqueFd> startConnect(const Address& address, const Address* from = nullptr);
// What SO_ERROR says of a connect that was in progress.
Status connectResult(int fd, const Address& address);
// One accepted connection (non-blocking, close-on-exec, no delay), or nothing when none waits.
Result<std::optional<UniqueFd>> acceptFrom(int listenFd);
void setNoDelay(int fd);

// One network interface that is up and has an address.
struct Interface {
  std::string name;
  Address address;
};
// All interfaces that NCCL's grammar selects: "eth,ib" prefixes, "^docker,lo" all but these, "=eth0" exact names; and
// "=10.0.0.7", the interface with this address.
// An empty filter means all but loopback and docker, and these only when nothing else is there.
Result<std::vector<Interface>> selectInterfaces(const std::string& filter);

}  // namespace bps
