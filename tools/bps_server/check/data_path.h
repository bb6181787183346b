// Tests the data connections of a server with a job of a few bytes.
#pragma once
#include <string>

#include "src/base/env.h"
#include "tools/bps_server/check/server_connection.h"

namespace bps {

// Opens a job of this process alone on the server, connects like its workers, sums a few bytes, and leaves. Returns a
// description of the transport.
Result<std::string> checkDataPath(ServerConnection& connection, const std::string& name, const Env& env);

}  // namespace bps
