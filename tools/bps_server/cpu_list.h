// "0,2-5": a list of CPUs.
#pragma once
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace bps {

// Empty text: an empty list. Fails naming what is not a CPU number of 0 to 1023.
Result<std::vector<int>> parseCpuList(std::string_view text);

}  // namespace bps
