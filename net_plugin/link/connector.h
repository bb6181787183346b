// Connector: one connection on its way to a listener: through shared memory where the listener is on this machine and
// lets us, else through the device.
#pragma once
#include <memory>
#include <optional>

#include "net_plugin/comm.h"
#include "net_plugin/tcp/connector.h"

namespace bps::plugin::link {

struct Target {
  tcp::HandleData remote;
  std::optional<uint64_t> door;
};

// The target of a handle, with its door only if it may be used.
Result<Target> parseTarget(std::span<const uint8_t> handle, bool sharedMemory);

class Connector {
 public:
  Connector(const tcp::Device& device, const Target& target, Deadline deadline);

  // Null: not yet. Never blocks; a failure names the address.
  Result<std::unique_ptr<Comm>> step();
  bool expired() const { return remote_.expired(); }

 private:
  Result<std::unique_ptr<Comm>> tryDoor();

  Target target_;
  tcp::Connector remote_;
};

}  // namespace bps::plugin::link
