// A job of a few bytes: what the data connections of a server are worth.
#pragma once
#include <string>

#include "src/base/env.h"
#include "tools/bps_server/check/server_connection.h"

namespace bps {

// Opens a job of this process alone on the server, connects as its workers do, has a few bytes summed, and leaves. What
// the transport is, in words.
Result<std::string> checkDataPath(ServerConnection& call, const std::string& name, const Env& env);

}  // namespace bps
