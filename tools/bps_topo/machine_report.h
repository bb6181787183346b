// Computes the plan of one machine for `bps-topo show` and `bps-topo plan`.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/env.h"
#include "src/base/status.h"
#include "tools/bps_topo/machine_text.h"

namespace bps {

struct MachineReportRequest {
  std::string topology;  // a file or a text; if empty, BPS_TOPO_FILE or this machine
  std::vector<int> gpus;
  uint64_t bytes = 0;
  size_t roots = 0;
  double network = 1;
};

// Makes the report. Uses BPS_TOPO_FILE, BPS_TOPO_DUMP_FILE and BPS_STRATEGY of `env`.
Result<MachineReport> makeMachineReport(const MachineReportRequest& request, Env env);

Status writeText(const std::string& path, const std::string& text);

}  // namespace bps
