// Asks which machines are in the networks of this machine's interfaces. No function needs a privilege: a UDP datagram
// makes the kernel resolve an address by ARP, and the kernel's table of neighbours then tells whether a machine has
// answered, even if that machine has a firewall. If the kernel has known a machine before, its entry may outlive a cut
// cable by a minute. Then a TCP connection that the machine accepts or refuses is an answer too.
#pragma once
#include <vector>

#include "src/base/deadline.h"
#include "src/base/io/interfaces.h"
#include "src/base/status.h"

namespace bps {

// The addresses that may be neighbours: they differ from the own IPv4 address in the last number only, and are in the
// network of the interface. Pure.
std::vector<Address> candidates(const Interface& own);

// For each interface, the candidates that answer now. Takes 3 seconds, in which the kernel asks three times, and longer
// only if a machine that has answered in the last minute does not answer any more, or has a firewall. Addresses that
// are undecided at the deadline do not answer.
Result<std::vector<std::vector<Address>>> askNeighbours(const std::vector<Interface>& interfaces, Deadline deadline);

}  // namespace bps
