// The ports that listeners without a port of their own may take: BPS_PORT_RANGE, and --data-ports of bps-server.
#pragma once
#include <cstdint>
#include <string_view>

#include "src/base/status.h"

namespace bps {

struct PortRange {
  uint16_t first = 0, last = 0;  // 0-0: any
};

// "5000-5099"; empty text: any.
Result<PortRange> parsePortRange(std::string_view text);

}  // namespace bps
