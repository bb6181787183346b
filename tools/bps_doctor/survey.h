// Survey: everything that rank 0 has learned about the job. judge() turns it into findings.
#pragma once
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tools/bps_doctor/facts.h"
#include "tools/bps_doctor/network/echo_probe.h"
#include "tools/bps_doctor/network/meeting.h"

namespace bps::doctor {

// A server as one rank sees it.
struct ServerResult {
  int rank = 0;
  std::string name;   // HOST:PORT
  std::string error;  // empty if the server is usable
  std::string version, transport;
  double roundTrip = 0, bytesPerSecond = 0;  // seconds; what the server sums now
  size_t jobs = 0, maxJobs = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ServerResult, rank, name, error, version, transport, roundTrip, bytesPerSecond, jobs,
                                   maxJobs)

// The all-reduce, measured by rank 0.
struct ReduceResult {
  bool ran = false;
  std::string error;
  uint64_t bytes = 0;
  double seconds = 0;                // the median of several calls
  size_t machines = 0, servers = 0;  // as the communicator counts them
  std::vector<double> workerShares;  // of the sum, one for each machine
  double bytesPerSecond = 0;         // of a NIC, as the communicator has measured it at its start; 0: not measured
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ReduceResult, ran, error, bytes, seconds, machines, servers, workerShares,
                                   bytesPerSecond)

struct Survey {
  int ranks = 1;
  std::map<int, Facts> facts;  // of the ranks that came
  std::vector<std::string> serverNames;
  std::vector<Refused> refused;
  std::map<int, std::string> lost;  // ranks that came but did not finish, and why
  std::vector<WayResult> ways;
  std::vector<ServerResult> servers;
  std::map<int, double> clocks;  // seconds by which a rank's clock is ahead of rank 0's
  std::string portRange;         // BPS_PORT_RANGE, or "any port"
  bool auth = true;
  double waited = 0;  // seconds that rank 0 waited for the others
  ReduceResult reduce;
};

// The ranks that run on one machine, in ascending order. At least one.
using Machine = std::vector<const Facts*>;
// Returns the machines in the order of their lowest ranks.
std::vector<Machine> machinesOf(const Survey& survey);

}  // namespace bps::doctor
