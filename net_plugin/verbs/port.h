// Port: the description of one port of an RDMA device, read from sysfs. Reading the description
// does not need the verbs library.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace bps::plugin::verbs {

enum class LinkLayer : uint8_t { kInfiniBand = 1, kEthernet = 2 };

using GidBytes = std::array<uint8_t, 16>;

// One entry of a port's GID table.
struct Gid {
  int index = 0;
  GidBytes bytes{};
  bool routable = false;  // true for RoCE v2, which uses UDP, not plain Ethernet frames
  std::string interface;  // the network interface of the GID; empty for InfiniBand
};

struct Port {
  std::string device;
  int number = 1;
  LinkLayer link = LinkLayer::kInfiniBand;
  std::string state;    // "ACTIVE"
  std::string pciPath;  // empty if it is not a PCI device
  int speedMbps = 0;
  uint64_t guid = 0;  // GUID of the device
  std::vector<Gid> gids;

  std::string name() const { return device + ":" + std::to_string(number); }
};

// Returns all ports, ordered by device name and number. Returns no ports if the kernel does not
// support RDMA.
std::vector<Port> readPorts(const std::string& root = "/sys/class/infiniband");

// Parsers for the text of sysfs files. The parsers are safe for arbitrary text.
std::string parseState(const std::string& text);    // "4: ACTIVE" -> "ACTIVE"
int parseRateMbps(const std::string& text);         // "100 Gb/sec (4X EDR)" -> 100000; returns 10000 without a rate
bool parseGid(const std::string& text, GidBytes&);  // "fe80:0000:..."; returns false if it is zero or not a GID
uint64_t parseGuid(const std::string& text);        // "64dd:b3ff:fec0:09a7"; returns 0 if it is not a GUID

// Returns whether the GID is an IPv4 address. For example, the GID of 10.0.0.7 is ::ffff:10.0.0.7.
bool isIpv4(const GidBytes& gid);
std::string gidText(const GidBytes& gid);

}  // namespace bps::plugin::verbs
