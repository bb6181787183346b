// Parses the list of servers in BPS_SERVERS.
#pragma once
#include <string>
#include <vector>

#include "src/base/io/socket.h"
#include "src/base/status.h"

namespace bps {

inline constexpr uint16_t kServerPort = 7700;

struct ServerTarget {
  std::string name;  // host:port as given
  HostPort where;
};

// The names in "a:1,b" or in the file of "@file" (one name per line, # starts a comment). Fails on an invalid entry or
// a duplicate; the error names `source`.
Result<std::vector<std::string>> serverNames(const std::string& servers, std::string_view source = "BPS_SERVERS");
// The same list with parsed addresses.
Result<std::vector<ServerTarget>> serverTargets(const std::string& servers);

}  // namespace bps
