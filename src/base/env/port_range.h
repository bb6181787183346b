// PortRange: the ports for listeners that have no configured port (BPS_PORT_RANGE, --data-ports of bps-server).
#pragma once
#include <cstdint>
#include <string_view>

#include "src/base/status.h"

namespace bps {

struct PortRange {
  uint16_t first = 0, last = 0;  // 0-0 means any port
};

// Parses "5000-5099". Empty text means any port.
Result<PortRange> parsePortRange(std::string_view text);

}  // namespace bps
