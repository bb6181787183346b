// StatusReport: the state of a server's jobs, in answer to the message kStatus of `bps-server --status`. Its
// lists and texts are limited, so a report has at most 6 MiB.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "src/wire/control_messages.h"

namespace bps {

// A call to which a machine has contributed and that is not summed completely.
struct CallReport {
  std::string text;  // see describe(const CallInfo&)
  uint64_t number = 0;
  uint64_t bytes = 0;  // of the whole buffer
  uint32_t rail = 0;
};

// The lane between a machine and the server.
struct LaneReport {
  std::string peer;
  uint32_t rail = 0;
  uint64_t missing = 0;  // contributions that other machines have made and this machine has not
  uint64_t unsent = 0;   // sums that the transport has not accepted
};

struct JobReport {
  static constexpr size_t kMaxCalls = 16, kMaxLanes = 32;

  uint64_t id = 0;
  std::string state;  // such as "serving"
  std::string hub;    // the name of rank 0
  uint32_t machines = 0, ranks = 0;
  double ageSeconds = 0;   // since the server opened the job
  double idleSeconds = 0;  // for how long calls in flight have made no progress
  uint64_t bytesSummed = 0;
  std::vector<CallReport> calls;
  // The lanes with calls in flight: first those that are waited for. If the list is too long, the last lanes are left
  // out.
  std::vector<LaneReport> lanes;
  uint32_t lanesLeftOut = 0;
};

struct StatusReport {
  static constexpr MessageType kType = MessageType::kStatusReport;
  static constexpr size_t kMaxJobs = 512;

  uint32_t silentThreads = 0;  // summation threads that have not reported their jobs in time
  std::vector<JobReport> jobs;
};

}  // namespace bps
