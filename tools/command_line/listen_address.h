// Parses an address to listen on. An error names the option and shows a correct form of the
// address.
#pragma once
#include <cstdint>
#include <string>

#include "src/base/io/socket.h"
#include "src/base/status.h"

namespace bps {

struct ListenOption {
  std::string name;          // the name of the option, such as "--listen"
  std::string text;          // the text that the user has given
  uint16_t defaultPort = 0;  // with 0, the text must contain a port
};

Result<Address> listenAddress(const ListenOption& option);

}  // namespace bps
