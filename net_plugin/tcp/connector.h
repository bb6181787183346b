// Connector: establishes the sockets of one connection. All sockets connect at the same time, and each then sends its
// hello. Fails at its deadline. Used by one thread at a time.
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

  // Returns the sockets once all are connected, otherwise an empty vector. Never blocks. A failure names the address.
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

  // The source address: the device's address if the kernel routes it through the device. A machine routes by
  // destination only, unless it has rules for the source address. Otherwise the kernel chooses the source address,
  // because the peer more likely has a route back to that one.
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
