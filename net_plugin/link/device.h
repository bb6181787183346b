// Device: a network device that the plugin offers to its caller. It is either a network interface
// for TCP, or an RDMA port together with the network interface that carries the handshakes of its
// connections.
#pragma once
#include <memory>
#include <vector>

#include "net_plugin/abi.h"
#include "net_plugin/tcp/tcp_interface.h"
#include "net_plugin/verbs/transport.h"
#include "src/base/env.h"

namespace bps::plugin::link {

struct Device {
  tcp::TcpInterface socket;
  std::unique_ptr<verbs::RdmaDevice> rdma;  // null if the device uses TCP

  const std::string& name() const { return rdma ? rdma->port().device : socket.name; }
  const std::string& pciPath() const { return rdma ? rdma->port().pciPath : socket.pciPath; }
  int speedMbps() const { return rdma ? rdma->port().speedMbps : socket.speedMbps; }
  uint64_t guid(int index) const { return rdma ? rdma->port().guid : static_cast<uint64_t>(index); }
  int port() const { return rdma ? rdma->port().number : 1; }
  // Returns the kinds of memory that connections of this device support, as a set of the kPtr bits
  // of abi.h.
  int ptrSupport() const { return rdma ? rdma->ptrSupport() : abi::kPtrHost; }
};

// Returns the RDMA devices if at least one is usable and NCCL_IB_DISABLE is not 1. Otherwise
// returns the TCP devices. NCCL chooses its devices in the same way.
Result<std::vector<Device>> findDevices(const Env& env);

}  // namespace bps::plugin::link
