// Fuzzes the parsers of HOST:PORT and of sizes in bytes. A HOST:PORT that the parser accepts must keep its port when it
// is formatted and parsed again.
#include <cstdlib>
#include <string>

#include "src/base/env.h"
#include "src/base/io/socket.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  auto parsed = bps::parseHostPort(text, data[0]);
  if (parsed.ok()) {
    const bps::HostPort where = std::move(parsed).value();
    auto again = bps::parseHostPort("[" + where.host + "]:" + std::to_string(where.port), 0);
    const bool bracket = where.host.find(']') != std::string::npos;
    if (where.host.empty() || (!bracket && (!again.ok() || std::move(again).value().port != where.port))) std::abort();
  }
  auto bytes = bps::parseBytes(text);
  if (bytes.ok() && std::move(bytes).value() > uint64_t{1} << 62) std::abort();
  return 0;
}
