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
// All interfaces that NCCL's grammar selects: "eth,ib" prefixes, "^docker,lo" all but these, "=eth0" exact names; and
// "=10.0.0.7", the interface with this address.
// An empty filter means all but loopback and docker, and these only when nothing else is there.
Result<std::vector<Interface>> selectInterfaces(const std::string& filter);

}  // namespace bps
