// The servers that BPS_SERVERS names.
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

// The names in "a:1,b" or in the file of "@file" (one per line, # starts a comment). Fails naming the source on a bad
// entry or one that is there twice.
Result<std::vector<std::string>> serverNames(const std::string& servers, std::string_view source = "BPS_SERVERS");
// The same names, and what they mean.
Result<std::vector<ServerTarget>> serverTargets(const std::string& servers);

}  // namespace bps
