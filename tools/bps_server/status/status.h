// bps-server --status: prints the jobs of a running server, with the calls in flight and for whom they wait.
#pragma once
#include <string>

#include "src/base/env.h"
#include "src/base/status.h"

namespace bps {

// Asks the server HOST[:PORT] for its state and prints the answer, as text or as one JSON object.
Status printServerStatus(const std::string& server, bool json, const Env& env);

}  // namespace bps
