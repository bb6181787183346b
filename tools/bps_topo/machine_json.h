// Makes the JSON output of `bps-topo show` and `bps-topo plan` for one machine.
#pragma once
#include <nlohmann/json.hpp>

#include "tools/bps_topo/machine_text.h"

namespace bps {

nlohmann::ordered_json planJson(const MachineReport& report);
nlohmann::ordered_json showJson(const MachineReport& report);

}  // namespace bps
