// FabricPlace: the place of this machine in a fabric: its address, the NIC of every level, and its neighbours.
//
// Address file. One line per machine: its digits, then its IP addresses of levels 0 to k - 1, separated by blanks:
//
//   00  10.0.0.1  10.1.0.1
//   10  10.0.0.2  10.1.1.1
//
// `#` begins a comment. The file has all machines. This machine is the line whose IP addresses are all on interfaces of
// this machine, unless BPS_FABRIC names its digits with address=.
//
// Without a file, the k interfaces that BPS_SOCKET_IFNAME lists are those of levels 0 to k - 1, in this order. The last
// number of the IPv4 address of level i is digit i plus 1. The neighbours have the same other numbers: 10.0.0.1 to
// 10.0.0.n are the n machines of one switch.
#pragma once
#include <string>
#include <vector>

#include "src/base/io/address.h"
#include "src/base/io/interfaces.h"
#include "src/base/status.h"
#include "src/fabric/fabric_spec.h"

namespace bps {

struct FabricPlace {
  struct Level {
    std::string interface;
    std::vector<Address> machines;  // by digit, with port 0; the entry of this machine's own digit is its own address
  };

  Bcube shape;
  size_t address = 0;
  std::vector<Level> levels;
};

// `interfaces` are all of this machine (interfaceAddresses()), `filter` is BPS_SOCKET_IFNAME. Errors name the file, the
// line and what is wrong: a wrong number of machines or fields, an address twice, an IP address twice (except loopback
// addresses), neighbours that are not in one network of an interface.
Result<FabricPlace> findPlace(const FabricSpec& spec, const std::vector<Interface>& interfaces,
                              const std::string& filter);

}  // namespace bps
