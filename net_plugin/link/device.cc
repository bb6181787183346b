#include "net_plugin/link/device.h"

#include <algorithm>

#include "net_plugin/abi.h"
#include "net_plugin/log.h"
#include "net_plugin/verbs/peer_memory.h"
#include "src/base/format.h"

namespace bps::plugin::link {
namespace {

verbs::VerbsOptions verbsOptionsOf(const Env& env) {
  return {.hca = env.ibHca,
          .hcaVariable = std::string(env.nameInUse("BPS_IB_HCA")),
          .gidIndex = env.ibGidIndex,
          .timeout = env.ibTimeout,
          .retries = env.ibRetryCount,
          .trafficClass = env.ibTrafficClass,
          .serviceLevel = env.ibServiceLevel,
          .write = env.ibWrite,
          .peerMemModule = verbs::peerMemoryModule()};
}

// Describes the supported kinds of memory for the log.
std::string describeGpuSupport(const verbs::RdmaDevice& rdma, const std::string& module) {
  const bool byAddress = (rdma.ptrSupport() & abi::kPtrCuda) != 0,
             byDmaBuf = (rdma.ptrSupport() & abi::kPtrDmaBuf) != 0;
  if (!byAddress && !byDmaBuf) return ", host memory only";
  return fmt::format(", GPU memory by {}{}{}", module, byAddress && byDmaBuf ? " and " : "", byDmaBuf ? "dma-buf" : "");
}

// Returns the network interface that carries the handshakes of an RDMA port. If BPS_SOCKET_IFNAME
// selects the port's own interface (RoCE only), the result is this interface. Otherwise the result
// is the first selected interface.
const tcp::TcpInterface& interfaceFor(const verbs::RdmaDevice& rdma, const std::vector<tcp::TcpInterface>& sockets) {
  const auto own = std::find_if(sockets.begin(), sockets.end(),
                                [&](const tcp::TcpInterface& socket) { return socket.name == rdma.gid().interface; });
  return own != sockets.end() ? *own : sockets.front();
}

}  // namespace

Result<std::vector<Device>> findDevices(const Env& env) {
  std::vector<tcp::TcpInterface> sockets =
      BPS_TRY(tcp::findInterfaces(env.socketIfname, {env.socketThreads, env.socketsPerThread}));
  for (tcp::TcpInterface& socket : sockets) {
    socket.peerTimeout = std::chrono::ceil<tcp::PeerTimeout>(std::chrono::duration<double>(env.timeout.value));
    socket.ports = env.portRange;
  }
  std::vector<Device> devices;
  if (!env.ibDisable) {
    const verbs::VerbsOptions settings = verbsOptionsOf(env);
    if (!settings.hca.empty() && settings.hcaVariable == "BPS_IB_HCA" && verbs::readPorts().empty())
      logWarn("BPS_IB_HCA={} selects no device: this machine has no RDMA devices", settings.hca);
    for (std::unique_ptr<verbs::RdmaDevice>& rdma : BPS_TRY(verbs::openDevices(settings))) {
      const tcp::TcpInterface& socket = interfaceFor(*rdma, sockets);
      logInfo("verbs device {}: GID {} {}, {} Mbit/s, handshakes over {}{}{}{}", rdma->port().name(), rdma->gid().index,
              verbs::gidText(rdma->gid().bytes), rdma->port().speedMbps, socket.name,
              rdma->port().pciPath.empty() ? "" : ", ", rdma->port().pciPath,
              describeGpuSupport(*rdma, settings.peerMemModule));
      devices.push_back({socket, std::move(rdma)});
    }
  }
  if (!devices.empty()) return devices;
  for (const tcp::TcpInterface& socket : sockets) {
    logInfo("TCP device {}: {}, {} Mbit/s, {} socket(s) per connection{}{}", socket.name, socket.address.text(),
            socket.speedMbps, socket.sockets, socket.pciPath.empty() ? "" : ", ", socket.pciPath);
    devices.push_back({socket, nullptr});
  }
  return devices;
}

}  // namespace bps::plugin::link
