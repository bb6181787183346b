// Connector: one connection on its way to a listener: all its sockets connecting at the same time, each then sending
// its hello. Ends at its deadline.
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

  // The sockets of the connection; none: not yet. Never blocks; a failure names the address.
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

  // Where the connection comes from. A machine with several interfaces routes by destination alone unless it has rules
  // for the source; where these lead through the device, the source is the device's address. Else the kernel's choice,
  // which the other end is more likely to have a way back to.
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
