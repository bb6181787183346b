// The text of `bps-trace report`: where the time went, the calls by size, and what would help.
#pragma once
#include <string>

#include "tools/bps_trace/critical_path.h"

namespace bps::trace {

std::string reportText(const JobHistory& history);

}  // namespace bps::trace
