// The metrics page of the ranks of this process.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "src/comm/metrics/comm_counters.h"

namespace bps {

// One communicator of this process.
struct RankIdentity {
  uint64_t job = 0;
  uint32_t rank = 0, ranks = 0, machine = 0;
};
struct CommSample {
  RankIdentity identity;
  const CommCounters* counters = nullptr;
  bool failed = false;
};

// RankTotals: the counters of all communicators of this process, added up.
struct RankTotals {
  void add(const CommCounters& counters);

  uint64_t begun = 0, completed = 0, failed = 0, bytes = 0, nanoseconds = 0;
  uint64_t bytesToHost = 0, bytesToDevice = 0;
  uint64_t bytesSent = 0, messagesSent = 0, bytesReceived = 0;
  ServerTally::Counts serverChanges{};
};

// Returns the page. `ended` has the communicators that exist no longer.
std::string rankPage(const std::vector<CommSample>& open, const RankTotals& ended);

}  // namespace bps
