// Device: what the plugin offers as one: a network interface for TCP, or a port for RDMA verbs together with the
// interface over which its connections are made.
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
  // NCCL's bits for the kinds of memory that connections take.
  int ptrSupport() const { return rdma ? rdma->ptrSupport() : abi::kPtrHost; }
};

// As NCCL's own transports: RDMA where a usable device is, else TCP, which NCCL_IB_DISABLE=1 asks for.
Result<std::vector<Device>> findDevices(const Env& env);

}  // namespace bps::plugin::link
