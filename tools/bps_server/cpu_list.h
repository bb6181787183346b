// Parses a list of CPU numbers, for example "0,2-5".
#pragma once
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace bps {

// Returns an empty list for an empty text. An error names the item that is not a CPU number from 0
// to 1023.
Result<std::vector<int>> parseCpuList(std::string_view text);

}  // namespace bps
