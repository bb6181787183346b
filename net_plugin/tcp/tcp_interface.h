// TcpInterface: a TCP device of this machine. There is one TcpInterface for each network interface
// that BPS_SOCKET_IFNAME selects.
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
  std::string pciPath;  // empty if it is not a PCI device
  int speedMbps = 0;
  Address address;     // port 0
  PortRange ports{};   // the ports for listeners of this device
  size_t sockets = 1;  // sockets of each connection that this device accepts
  PeerTimeout peerTimeout = stream::kDefaultPeerTimeout;
};

// The values of NCCL_SOCKET_NTHREADS and NCCL_NSOCKS_PERTHREAD. The value -1 means that the
// variable is not set.
struct SocketCountRequest {
  int threads = -1, perThread = -1;
};

Result<std::vector<TcpInterface>> findInterfaces(const std::string& filter, const SocketCountRequest& request);

// Returns the number of sockets per connection. If `request` has a number, the result is this
// number, at most kMaxSockets. Otherwise the result follows from the speed of the device or from
// the cloud's limit for a single flow. `vendor` is the text of the PCI vendor file.
size_t chooseSocketCount(const SocketCountRequest& request, int speedMbps, std::string_view vendor);

// Returns the path up to its last PCI function, or empty text if no component is a PCI function.
// For example, "/sys/devices/pci0000:00/0000:00:03.0/virtio1" becomes ".../0000:00:03.0".
std::string pciFunctionPath(const std::string& path);
// Resolves symbolic links. Returns empty text if the path does not exist.
std::string resolvePath(const std::string& path);
// Parses the text of a sysfs speed file. Returns 10000 if the text has no speed, as for loopback
// and many virtual interfaces.
int parseSpeedMbps(const std::string& text);

}  // namespace bps::plugin::tcp
