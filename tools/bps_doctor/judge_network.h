// The findings about the ways between ranks and about the choice of interfaces. Used by judge().
#pragma once
#include <vector>

#include "tools/bps_doctor/judge.h"

namespace bps::doctor {

// Blocked ports and MTU black holes. A way to a NIC that bps does not use is no finding.
void judgeWays(const Survey& survey, std::vector<Finding>& findings);
// Interfaces that are slower than others, or that the other ranks do not reach.
void judgeNics(const Survey& survey, std::vector<Finding>& findings);

}  // namespace bps::doctor
