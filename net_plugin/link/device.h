// Device: a device of the plugin. It is a network interface for TCP, or an RDMA port together with the network
// interface that carries the handshakes of its connections.
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
  std::unique_ptr<verbs::RdmaDevice> rdma;  // null: TCP

  const std::string& name() const { return rdma ? rdma->port().device : socket.name; }
  const std::string& pciPath() const { return rdma ? rdma->port().pciPath : socket.pciPath; }
  int speedMbps() const { return rdma ? rdma->port().speedMbps : socket.speedMbps; }
  uint64_t guid(int index) const { return rdma ? rdma->port().guid : static_cast<uint64_t>(index); }
  int port() const { return rdma ? rdma->port().number : 1; }
  // The kinds of memory that its connections support (NCCL's bits).
  int ptrSupport() const { return rdma ? rdma->ptrSupport() : abi::kPtrHost; }
};

// As in NCCL: RDMA devices if there is a usable one and NCCL_IB_DISABLE is not 1, otherwise TCP devices.
Result<std::vector<Device>> findDevices(const Env& env);

}  // namespace bps::plugin::link
