// The report of `bps-topo plan --workers N --servers K`: how a call is split over owners, its time, and the gain from
// servers.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/plan/shares.h"

namespace bps {

struct SplitRequest {
  size_t workers = 0;
  size_t servers = 0;
  std::vector<double> workerGbps;  // one value per machine, or one for all
  std::vector<double> serverGbps;
  uint64_t bytes = 0;
};

struct SplitReport {
  SplitRequest request;
  Rates rates;                 // bytes per second
  Shares shares;               // of the request
  double secondsWithout = 0;   // with no server
  double secondsWithMore = 0;  // with one more server, as fast as the fastest server, or worker if there is none

  double seconds() const { return shares.secondsPerByte * static_cast<double>(request.bytes); }
};

Result<SplitReport> makeSplitReport(const SplitRequest& request);
std::string splitText(const SplitReport& report);
nlohmann::ordered_json splitJson(const SplitReport& report);

}  // namespace bps
