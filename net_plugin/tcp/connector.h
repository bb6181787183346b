// Connector: establishes the sockets of one connection. All sockets connect at the same time. Each
// socket sends its hello as soon as it is connected. A Connector fails at its deadline. It is used
// by one thread at a time.
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

  // Returns the sockets as soon as all are connected, and an empty vector before. Never blocks. The
  // message of a failure names the address.
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
  // through the device, the source address is that address. Otherwise the sockets have no given
  // source address, and the kernel chooses one. The peer more likely has a route back to the
  // address that the kernel chooses. A machine routes by destination only, unless it has rules for
  // the source address.
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
