// The findings about servers. Used by judge().
#pragma once
#include <vector>

#include "tools/bps_doctor/judge/judge.h"

namespace bps::doctor {

// Servers that are not usable from all machines, and servers of another version.
void judgeServers(const Survey& survey, std::vector<Finding>& findings);

}  // namespace bps::doctor
