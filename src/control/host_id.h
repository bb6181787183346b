// Identifies the machine that this process runs on: ranks with equal ids share a machine.
#pragma once
#include <string>

#include "src/base/env.h"

namespace bps {

std::string localHostName();
// BPS_HOSTID, or else host name and boot id. Host names are not always unique. Containers of one host share both.
std::string localHostId(const Env& env);

}  // namespace bps
