// The host id identifies the machine on which this process runs. Ranks with equal host ids share a machine.
#pragma once
#include <string>

#include "src/base/env.h"

namespace bps {

std::string localHostName();
// Returns BPS_HOSTID if it is set, otherwise the host name and the kernel's boot id. The boot id distinguishes hosts
// that have the same name. All containers of one host have the same boot id.
std::string localHostId(const Env& env);

}  // namespace bps
