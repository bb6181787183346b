// Port: one port of an RDMA device, as the kernel describes it in sysfs. Reading it needs no verbs library.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace bps::plugin::verbs {

enum class LinkLayer : uint8_t { kInfiniBand = 1, kEthernet = 2 };

using GidBytes = std::array<uint8_t, 16>;

// One line of a port's table of addresses.
struct Gid {
  int index = 0;
  GidBytes bytes{};
  bool routable = false;  // RoCE v2: travels in UDP, not in bare Ethernet
  std::string interface;  // whose address it is; empty for InfiniBand
};

struct Port {
  std::string device;
  int number = 1;
  LinkLayer link = LinkLayer::kInfiniBand;
  std::string state;    // "ACTIVE"
  std::string pciPath;  // empty: not a PCI device
  int speedMbps = 0;
  uint64_t guid = 0;  // of the device
  std::vector<Gid> gids;

  std::string name() const { return device + ":" + std::to_string(number); }
};

// All ports, by device name and number; none where the kernel has no RDMA.
std::vector<Port> readPorts(const std::string& root = "/sys/class/infiniband");

// The parsers of the files take any text.
std::string parseState(const std::string& text);    // "4: ACTIVE" -> "ACTIVE"
int parseRateMbps(const std::string& text);         // "100 Gb/sec (4X EDR)" -> 100000; 10000 when it tells nothing
bool parseGid(const std::string& text, GidBytes&);  // "fe80:0000:...": false when it is not one, or all zero
uint64_t parseGuid(const std::string& text);        // "64dd:b3ff:fec0:09a7"; 0 when it is not one

// The address 10.0.0.7 is ::ffff:10.0.0.7.
bool isIpv4(const GidBytes& gid);
std::string gidText(const GidBytes& gid);

}  // namespace bps::plugin::verbs
