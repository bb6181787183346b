// bps-server --check: tests whether servers are reachable and usable. The check runs a small job on
// each server.
#pragma once
#include <string>

#include "src/base/env.h"
#include "src/base/status.h"
#include "src/control/unique_id.h"
#include "src/wire/control_messages.h"

namespace bps {

// The report of a server, and the results that the check has measured.
struct ServerState {
  uint32_t libraryVersion = 0;  // BPS_VERSION_CODE of the server
  CheckReport load;
  double roundTrip = 0, bytesPerSecond = 0;  // seconds; bytes that the server sums for all its jobs
  std::string transport;                     // what carries the data
};

// Checks one server, HOST:PORT. The failure says what is wrong.
Result<ServerState> checkServer(const std::string& name, const Key& key, const Env& env);

// Checks the servers and prints one line for each. `servers` has the form of BPS_SERVERS. Returns
// true if all servers are usable.
Result<bool> checkServers(const std::string& servers, std::string_view source, const Env& env);

}  // namespace bps
