// Parses the list of servers in BPS_SERVERS.
#pragma once
#include <string>
#include <vector>

#include "src/base/io/socket.h"
#include "src/base/status.h"

namespace bps {

inline constexpr uint16_t kServerPort = 7700;

struct ServerTarget {
  std::string name;  // host:port as written in BPS_SERVERS
  HostPort where;
};

// Returns the server names in a list such as "a:1,b". If `servers` is "@file", the list is in that file, where line
// ends also separate names and "#" starts a comment. Fails if a name is invalid or appears twice; the error names
// `source`.
Result<std::vector<std::string>> serverNames(const std::string& servers, std::string_view source = "BPS_SERVERS");
// Like serverNames(), but also returns the parsed host and port of each server.
Result<std::vector<ServerTarget>> serverTargets(const std::string& servers);

}  // namespace bps
