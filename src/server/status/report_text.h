// Writes a StatusReport as text, for the log of a server and for `bps-server --status`.
#pragma once
#include <string>
#include <vector>

#include "src/wire/status_report.h"

namespace bps::server {

// Returns one line for each job, call and lane.
std::vector<std::string> reportLines(const StatusReport& report);

}  // namespace bps::server
