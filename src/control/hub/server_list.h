// The servers that BPS_SERVERS names, looked up.
#pragma once
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/env.h"
#include "src/base/socket.h"
#include "src/base/status.h"

namespace bps {

inline constexpr uint16_t kServerPort = 7700;

struct ServerTarget {
  std::string name;  // host:port as given
  std::vector<Address> addresses;
};

// The names in "a:1,b" or in the file of "@file" (one per line, # starts a comment). Fails naming BPS_SERVERS on a bad
// entry or one that is there twice.
Result<std::vector<std::string>> serverNames(const std::string& servers);
// Looks all names up. A host that cannot be found is an error that names BPS_SERVERS and the host.
Result<std::vector<ServerTarget>> serverTargets(const std::string& servers, Deadline deadline);

}  // namespace bps
