// Asks which machines are in the networks of this machine's interfaces. The functions need no privilege: a UDP datagram
// makes the kernel resolve an address by ARP, and the kernel's table of neighbours then tells whether a machine has
// answered. So a firewall of the other machine does not matter. An entry that an administrator has made permanent counts
// as an answer.
#pragma once
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/io/interfaces.h"
#include "src/base/status.h"

namespace bps {

// The addresses that may be neighbours: they differ from the own IPv4 address in the last number only, and are in the
// network of the interface. Pure.
std::vector<Address> candidates(const Interface& own);

// The interfaces with these names, in this order. Without names, those of BPS_SOCKET_IFNAME. Fails if one of them is not
// up, or has no IPv4 address.
Result<std::vector<Interface>> chooseInterfaces(std::vector<std::string> names, const std::string& filter);

// For each interface, the candidates that answer. Takes 3 to 9 seconds, because the kernel asks three times before it
// gives up, and asks again if it has known a machine for long. Addresses that are undecided at the deadline do not
// answer.
Result<std::vector<std::vector<Address>>> askNeighbours(const std::vector<Interface>& interfaces, Deadline deadline);

}  // namespace bps
