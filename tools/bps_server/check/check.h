// bps-server --check: are these servers there, and fit for a job? Asks them, and uses each as a job would.
#pragma once
#include <string>

#include "src/base/env.h"
#include "src/base/status.h"

namespace bps {

// `servers` as BPS_SERVERS. Prints a line for each; whether all of them are well.
Result<bool> checkServers(const std::string& servers, std::string_view source, const Env& env);

}  // namespace bps
