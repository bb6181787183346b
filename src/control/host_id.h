// Which machine this process runs on: ranks with equal ids share one.
#pragma once
#include <string>

#include "src/base/env.h"

namespace bps {

std::string localHostName();
// BPS_HOSTID, else host name and boot id (host names are not always unique; containers of one host share both).
std::string localHostId(const Env& env);

}  // namespace bps
