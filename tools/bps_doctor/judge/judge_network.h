// The findings about the ways between ranks and about the choice of interfaces. Used by judge().
#pragma once
#include <vector>

#include "tools/bps_doctor/judge/judge.h"

namespace bps::doctor {

// Wrong interfaces, blocked ports and MTU black holes. If the other ranks reach another interface of a machine than the
// one that BPS_SOCKET_IFNAME selects, this is the only finding about that machine's ports.
void judgeNetwork(const Survey& survey, std::vector<Finding>& findings);

}  // namespace bps::doctor
