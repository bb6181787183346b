// The TCP devices of this machine: one per network interface that BPS_SOCKET_IFNAME's grammar selects.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "net_plugin/stream/ack_watch.h"
#include "src/base/io/socket.h"
#include "src/base/status.h"

namespace bps::plugin::tcp {

using stream::PeerTimeout;

struct TcpInterface {
  std::string name;
  std::string pciPath;  // empty: not a PCI device
  int speedMbps = 0;
  Address address;     // port 0
  PortRange ports{};   // that its listeners may take
  size_t sockets = 1;  // of each connection that is accepted here
  PeerTimeout peerTimeout = stream::kDefaultPeerTimeout;
};

// What the user asked for: NCCL_SOCKET_NTHREADS and NCCL_NSOCKS_PERTHREAD; -1: nothing.
struct SocketCountRequest {
  int threads = -1, perThread = -1;
};

Result<std::vector<TcpInterface>> findInterfaces(const std::string& filter, const SocketCountRequest& request);

// Sockets of a connection: as wished, at most kMostSockets; else as many as the device's rate, or the limit that its
// cloud puts on one flow, needs. `vendor`: the text of the PCI vendor file.
size_t chooseSocketCount(const SocketCountRequest& request, int speedMbps, std::string_view vendor);

// "/sys/devices/pci0000:00/0000:00:03.0/virtio1" -> ".../0000:00:03.0"; empty when no part names a PCI function.
std::string pciFunctionPath(const std::string& path);
// Without symbolic links; empty when there is nothing.
std::string resolvePath(const std::string& path);
// The text of a speed file; 10000 when it tells nothing (as of loopback and many virtual interfaces).
int parseSpeedMbps(const std::string& text);

}  // namespace bps::plugin::tcp
