#include "net_plugin/link/device.h"

#include <algorithm>

#include "net_plugin/abi.h"
#include "net_plugin/log.h"
#include "net_plugin/verbs/peer_memory.h"
#include "src/base/format.h"

namespace bps::plugin::link {
namespace {

verbs::Settings settingsOf(const Env& env) {
  return {.hca = env.ibHca,
          .hcaVariable = std::string(env.nameInUse("BPS_IB_HCA")),
          .gidIndex = env.ibGidIndex,
          .timeout = env.ibTimeout,
          .retries = env.ibRetryCount,
          .trafficClass = env.ibTrafficClass,
          .serviceLevel = env.ibServiceLevel,
          .write = env.ibWrite,
          .peerMemory = verbs::peerMemoryModule()};
}

// Where memory may lie besides the host, for the log.
std::string gpuMemoryOf(const verbs::Device& rdma, const std::string& module) {
  const bool byAddress = (rdma.pointers() & abi::kPtrCuda) != 0, byDmaBuf = (rdma.pointers() & abi::kPtrDmaBuf) != 0;
  if (!byAddress && !byDmaBuf) return ", host memory only";
  return fmt::format(", GPU memory by {}{}{}", module, byAddress && byDmaBuf ? " and " : "", byDmaBuf ? "dma-buf" : "");
}

// A RoCE port's own interface if it may be used, else the first one.
const tcp::Device& socketFor(const verbs::Device& rdma, const std::vector<tcp::Device>& sockets) {
  const auto own = std::find_if(sockets.begin(), sockets.end(),
                                [&](const tcp::Device& socket) { return socket.name == rdma.gid().interface; });
  return own != sockets.end() ? *own : sockets.front();
}

}  // namespace

Result<std::vector<Device>> findDevices(const Env& env) {
  std::vector<tcp::Device> sockets =
      BPS_TRY(tcp::findDevices(env.socketIfname, {env.socketThreads, env.socketsPerThread}));
  for (tcp::Device& socket : sockets) {
    socket.patience = std::chrono::ceil<tcp::Patience>(std::chrono::duration<double>(env.timeout.value));
    socket.ports = env.portRange;
  }
  std::vector<Device> devices;
  if (!env.ibDisable) {
    const verbs::Settings settings = settingsOf(env);
    if (!settings.hca.empty() && settings.hcaVariable == "BPS_IB_HCA" && verbs::readPorts().empty())
      logWarn("BPS_IB_HCA={} selects nothing: there are no RDMA devices", settings.hca);
    for (std::unique_ptr<verbs::Device>& rdma : BPS_TRY(verbs::openDevices(settings))) {
      const tcp::Device& socket = socketFor(*rdma, sockets);
      logInfo("verbs device {}: GID {} {}, {} Mbit/s, connections made over {}{}{}{}", rdma->port().name(),
              rdma->gid().index, verbs::gidText(rdma->gid().bytes), rdma->port().speedMbps, socket.name,
              rdma->port().pciPath.empty() ? "" : ", ", rdma->port().pciPath, gpuMemoryOf(*rdma, settings.peerMemory));
      devices.push_back({socket, std::move(rdma)});
    }
  }
  if (!devices.empty()) return devices;
  for (const tcp::Device& socket : sockets) {
    logInfo("TCP device {}: {}, {} Mbit/s, {} socket(s) per connection{}{}", socket.name, socket.address.text(),
            socket.speedMbps, socket.sockets, socket.pciPath.empty() ? "" : ", ", socket.pciPath);
    devices.push_back({socket, nullptr});
  }
  return devices;
}

}  // namespace bps::plugin::link
