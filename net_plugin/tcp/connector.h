// Connector: establishes the sockets of one connection. All sockets connect at the same time. Each
// socket sends its hello as soon as it is connected. A Connector fails at its deadline. A Connector
// is used by one thread at a time.
#pragma once
#include <optional>
#include <vector>

#include "net_plugin/tcp/tcp_interface.h"
#include "net_plugin/tcp/wire.h"
#include "src/base/deadline.h"

namespace bps::plugin::tcp {

class Connector {
 public:
  Connector(const TcpInterface& device, const HandleData& target, Carrier carrier, Deadline deadline);

  // Returns all sockets as soon as every socket has sent its hello. Until then, returns an empty
  // vector. Never blocks. The message of a failure names the address.
  Result<std::vector<UniqueFd>> step();
  bool expired() const { return deadline_.passed(); }

 private:
  struct ConnectingSocket {
    UniqueFd socket;
    HelloBytes hello{};
    bool connected = false;
    size_t sent = 0;
  };

  Status startConnects();
  Result<Progress> finishConnect(ConnectingSocket& connecting) const;
  Result<Progress> sendHello(ConnectingSocket& connecting) const;

  // The source address of the sockets. If the kernel routes packets from the device's address
  // through the device, the source address is that address. Otherwise the kernel chooses the source
  // address, because the peer more likely has a route back to an address that the kernel chooses.
  // The kernel routes by destination only, unless the machine has routing rules for source
  // addresses.
  std::optional<Address> sourceAddress_;
  Address address_;
  Token token_;
  Carrier carrier_;
  size_t sockets_;
  PeerTimeout peerTimeout_;
  Deadline deadline_;
  std::vector<ConnectingSocket> connectingSockets_;
};

}  // namespace bps::plugin::tcp
