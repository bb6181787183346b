// Fuzzes the parser of BPS_SERVERS with values that are lists of servers, not names of files. Every server name that
// the parser accepts must have the form host:port.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "src/control/servers/server_list.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (!text.empty() && text.front() == '@') return 0;
  auto names = bps::serverNames(text);
  if (!names.ok()) return 0;
  for (const std::string& name : std::move(names).value())
    if (!bps::parseHostPort(name, bps::kServerPort).ok()) std::abort();
  return 0;
}
