// The network interfaces of this machine, and their selection with NCCL's grammar. Any thread may
// call these functions.
#pragma once
#include <string>
#include <vector>

#include "src/base/io/socket.h"
#include "src/base/status.h"

namespace bps {

// One network interface that is up and has an address.
struct Interface {
  std::string name;
  Address address;
  unsigned prefixBits = 0;  // the addresses that agree in these first bits are in the network of the interface
};
// Returns every address of every interface that is up.
std::vector<Interface> interfaceAddresses();
// False if the interface does not exist, is down, or has no carrier, for example because its cable is out.
bool interfaceRuns(const std::string& name);
// Returns the interfaces that the filter selects, in NCCL's grammar. "eth,ib" lists prefixes of
// names, "^docker,lo" excludes names with these prefixes, and "=eth0" is an exact name. "=10.0.0.7"
// selects the interface with this address. An empty filter selects all interfaces except lo,
// docker* and virbr*. If no other interface is up, an empty filter selects lo, or, without lo, all
// interfaces.
Result<std::vector<Interface>> selectInterfaces(const std::string& filter);
// Listens on the first interface that the filter selects, with a port of the range.
Result<UniqueFd> listenOnFirst(const std::string& filter, const PortRange& ports, int backlog);

}  // namespace bps
