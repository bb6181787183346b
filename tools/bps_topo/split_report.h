// Makes the report of `bps-topo plan --workers N --servers K`. The report shows how a call is split
// among the owners, how long the call takes, and how much the servers gain.
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
  std::vector<double> workerGbps;  // one value for each machine, or one value for all machines
  std::vector<double> serverGbps;
  uint64_t bytes = 0;
};

// If the request has no server, the one additional server of `secondsWithMore` is as fast as the
// fastest worker.
struct SplitReport {
  SplitRequest request;
  Rates rates;                 // bytes per second of each machine
  Shares shares;               // the shares of the owners
  double secondsWithout = 0;   // the time without servers
  double secondsWithMore = 0;  // the time with one more server, which is as fast as the fastest server

  double seconds() const { return shares.secondsPerByte * static_cast<double>(request.bytes); }
};

Result<SplitReport> makeSplitReport(const SplitRequest& request);
std::string splitText(const SplitReport& report);
nlohmann::ordered_json splitJson(const SplitReport& report);

}  // namespace bps
