// The TCP devices of this machine: one per network interface that BPS_SOCKET_IFNAME's grammar selects.
#pragma once
#include <string>
#include <vector>

#include "src/base/socket.h"
#include "src/base/status.h"

namespace bps::plugin::tcp {

struct Device {
  std::string name;
  std::string pciPath;  // empty: not a PCI device
  int speedMbps = 0;
  Address address;  // port 0
};

Result<std::vector<Device>> findDevices(const std::string& filter);

// "/sys/devices/pci0000:00/0000:00:03.0/virtio1" -> ".../0000:00:03.0"; empty when no part names a PCI function.
std::string pciFunctionPath(const std::string& path);
// Without symbolic links; empty when there is nothing.
std::string resolvedPath(const std::string& path);
// The text of a speed file; 10000 when it tells nothing (as of loopback and many virtual interfaces).
int parseSpeedMbps(const std::string& text);

}  // namespace bps::plugin::tcp
