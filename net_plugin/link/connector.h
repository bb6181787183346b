// Connector: establishes the sending end of one connection. It uses shared memory if the listener
// is on this machine and accepts shared memory. Otherwise it uses RDMA if both sides have RDMA, and
// TCP if not. A Connector is used by one thread at a time.
#pragma once
#include <memory>
#include <optional>

#include "net_plugin/comm.h"
#include "net_plugin/link/device.h"
#include "net_plugin/tcp/connector.h"

namespace bps::plugin::link {

struct ConnectTarget {
  tcp::HandleData remote;
  std::optional<uint64_t> shmSocketId;
  std::optional<verbs::VerbsExtension> rdma;
};

// Parses a handle. The result has no shmSocketId if `sharedMemory` is false.
Result<ConnectTarget> parseTarget(std::span<const uint8_t> handle, bool sharedMemory);

class Connector {
 public:
  Connector(const Device& device, const ConnectTarget& target, Deadline deadline);

  // Returns null until the connection is established. Never blocks. The message of a failure names
  // the address.
  Result<std::unique_ptr<Comm>> step();
  bool expired() const { return deadline_.passed(); }

 private:
  Result<std::unique_ptr<Comm>> tryShmConnect();
  Result<std::unique_ptr<Comm>> stepRemote();
  std::string to() const { return "to " + target_.remote.address.text(); }

  ConnectTarget target_;
  verbs::RdmaDevice* rdma_;  // null if the connection uses TCP
  tcp::PeerTimeout peerTimeout_;
  Deadline deadline_;
  tcp::Connector remote_;
  std::unique_ptr<verbs::RdmaDevice::Handshake> handshake_;
};

}  // namespace bps::plugin::link
