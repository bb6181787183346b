// Connector: one connection on its way to a listener: all its sockets connecting at the same time, each then sending
// its hello. Ends at its deadline.
#pragma once
#include <vector>

#include "net_plugin/tcp/device.h"
#include "net_plugin/tcp/wire.h"

namespace bps::plugin::tcp {

class Connector {
 public:
  Connector(const Device& device, const HandleData& target, Carrier carrier, Deadline deadline);

  // The sockets of the connection; none: not yet. Never blocks; a failure names the address.
  Result<std::vector<UniqueFd>> step();
  bool expired() const { return deadline_.passed(); }

 private:
  struct Call {
    UniqueFd socket;
    HelloBytes hello{};
    bool connected = false;
    size_t sent = 0;
  };

  Status begin();
  Result<Progress> finishConnect(Call& call) const;
  Result<Progress> greet(Call& call) const;

  Address address_;
  Token token_;
  Carrier carrier_;
  size_t sockets_;
  Patience patience_;
  Deadline deadline_;
  std::vector<Call> calls_;
};

}  // namespace bps::plugin::tcp
