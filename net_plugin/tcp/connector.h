// Connector: one socket on its way to a listener: connecting, then sending the hello. Ends at its deadline.
#pragma once
#include "net_plugin/tcp/device.h"
#include "net_plugin/tcp/wire.h"

namespace bps::plugin::tcp {

class Connector {
 public:
  Connector(const Device& device, const HandleData& target, Carrier carrier, Deadline deadline);

  // An empty descriptor: not yet. Never blocks; a failure names the address.
  Result<UniqueFd> step();
  bool expired() const { return deadline_.passed(); }

 private:
  enum class State { kIdle, kConnecting, kGreeting };

  Status begin();
  Result<Progress> finishConnect();
  Result<Progress> greet();
  Result<Progress> advance();

  Address address_;
  HelloBytes hello_;
  Deadline deadline_;
  State state_ = State::kIdle;
  UniqueFd socket_;
  size_t sent_ = 0;
};

}  // namespace bps::plugin::tcp
