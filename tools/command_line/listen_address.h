// An address that a tool is told to listen on. What is wrong is said with the option's name, and what would be right.
#pragma once
#include <cstdint>
#include <string>

#include "src/base/io/socket.h"
#include "src/base/status.h"

namespace bps {

struct ListenOption {
  std::string name;          // "--listen"
  std::string text;          // as given
  uint16_t defaultPort = 0;  // 0: a port is required
};

Result<Address> listenAddress(const ListenOption& option);

}  // namespace bps
