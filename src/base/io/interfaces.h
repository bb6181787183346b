// The network interfaces of this machine, and their selection with NCCL's grammar. Any thread.
#pragma once
#include <string>
#include <vector>

#include "src/base/io/address.h"
#include "src/base/status.h"

namespace bps {

// One network interface that is up and has an address.
struct Interface {
  std::string name;
  Address address;
};
// Every address of every interface that is up.
std::vector<Interface> interfaceAddresses();
// Returns the interfaces that the filter selects, in NCCL's grammar: "eth,ib" are prefixes, "^docker,lo" means all but
// these prefixes, "=eth0" is an exact name. "=10.0.0.7" selects the interface with this address. An empty filter means
// all interfaces except lo, docker* and virbr*, or, if there are no others, all interfaces.
Result<std::vector<Interface>> selectInterfaces(const std::string& filter);

}  // namespace bps
