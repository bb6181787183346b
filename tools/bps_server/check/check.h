// bps-server --check: tests whether servers are reachable and usable. The check runs a small job on
// each server.
#pragma once
#include <string>

#include "src/base/env.h"
#include "src/base/status.h"

namespace bps {

// Checks the servers and prints one line for each. `servers` has the form of BPS_SERVERS. Returns
// true if all servers are usable.
Result<bool> checkServers(const std::string& servers, std::string_view source, const Env& env);

}  // namespace bps
