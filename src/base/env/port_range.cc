#include "src/base/env/port_range.h"

#include <algorithm>
#include <charconv>

#include "src/base/format.h"

namespace bps {

Result<PortRange> parsePortRange(std::string_view text) {
  const auto port = [](std::string_view digits) -> uint16_t {  // 0: not a port
    uint16_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    return error == std::errc{} && end == digits.data() + digits.size() ? value : uint16_t{0};
  };
  if (text.empty()) return PortRange{};
  const size_t dash = std::min(text.find('-'), text.size());
  const uint16_t first = port(text.substr(0, dash));
  const uint16_t last = dash < text.size() ? port(text.substr(dash + 1)) : uint16_t{0};
  if (first == 0 || last < first)
    return failure(Code::kInvalidArgument, "\"{}\" is not a port range: expected FIRST-LAST, each 1 to 65535", text);
  return PortRange{first, last};
}

}  // namespace bps
