// Tests the data connections of a server with a job that sums a few bytes.
#pragma once
#include <string>

#include "src/base/env.h"
#include "tools/bps_server/check/server_connection.h"

namespace bps {

// Opens a job on the server. This process plays all workers of the job. Connects as the workers
// would, sums a few bytes, and leaves the job. Returns a description of the transport.
Result<std::string> checkDataPath(ServerConnection& connection, const std::string& name, const Env& env);

}  // namespace bps
