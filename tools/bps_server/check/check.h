// bps-server --check: tests whether servers are reachable and usable, by running a small job on each.
#pragma once
#include <string>

#include "src/base/env.h"
#include "src/base/status.h"

namespace bps {

// `servers` as in BPS_SERVERS. Prints one line per server. True if all are usable.
Result<bool> checkServers(const std::string& servers, std::string_view source, const Env& env);

}  // namespace bps
