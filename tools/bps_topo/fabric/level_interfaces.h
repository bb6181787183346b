// The interfaces of this machine that may be the levels of a BCube.
#pragma once
#include <string>
#include <vector>

#include "src/base/io/interfaces.h"
#include "src/base/status.h"

namespace bps {

// The interfaces with these names, in this order. Without names, those of BPS_SOCKET_IFNAME. Fails if one of them is
// not up, or has no IPv4 address.
Result<std::vector<Interface>> chooseInterfaces(std::vector<std::string> names, const std::string& filter);

}  // namespace bps
