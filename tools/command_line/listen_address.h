// Parses an address to listen on. An error names the option and shows a correct form.
#pragma once
#include <cstdint>
#include <string>

#include "src/base/io/socket.h"
#include "src/base/status.h"

namespace bps {

struct ListenOption {
  std::string name;          // "--listen"
  std::string text;          // the user's text
  uint16_t defaultPort = 0;  // 0: a port is required
};

Result<Address> listenAddress(const ListenOption& option);

}  // namespace bps
