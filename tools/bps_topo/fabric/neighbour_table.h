// The kernel's table of neighbours (ARP): which IPv4 addresses of an interface the kernel knows. Reading it needs no
// privilege. Any thread may call the functions.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <map>

#include "src/base/io/address.h"
#include "src/base/status.h"

namespace bps {

struct NeighbourEntry {
  uint16_t state = 0;                        // NUD_* of linux/neighbour.h
  std::chrono::milliseconds sinceAnswer{0};  // since the neighbour's last answer, where there was one
};

using Ipv4Bytes = std::array<uint8_t, 4>;  // in network order
Ipv4Bytes ipv4Bytes(const Address& address);

// The entries of the interface with this index.
Result<std::map<Ipv4Bytes, NeighbourEntry>> readNeighbourTable(unsigned interface);

}  // namespace bps
