// Surveys of healthy jobs, into which the tests put faults.
#pragma once
#include "tools/bps_doctor/survey.h"

namespace bps::doctor::test {

// A job with one rank on each machine. Each machine has the NIC eth0 in use, and eth1 beside it.
inline Survey healthySurvey(int ranks) {
  Survey survey;
  survey.ranks = ranks;
  survey.portRange = "any port";
  survey.waited = 10;
  for (int rank = 0; rank < ranks; ++rank) {
    Facts facts;
    facts.rank = rank;
    facts.host = "host" + std::to_string(rank);
    facts.hostId = facts.host + " boot";
    facts.version = "1.2.3";
    facts.nofile = facts.nofileHard = 4096;
    facts.memlock = UINT64_MAX;
    facts.shmBytes = facts.shmFree = uint64_t{1} << 30;
    const std::string end = std::to_string(rank + 1);
    facts.nics = {{"eth0", "10.0.0." + end, 7000, 10000, 1500, true},
                  {"eth1", "10.0.1." + end, 7000, 10000, 1500, false}};
    survey.facts.emplace(rank, facts);
  }
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to)
      for (const NicFacts& nic : survey.facts.at(to).nics) {
        WayResult way;
        way.from = from, way.to = to;
        way.nic = nic.name;
        way.address = nic.address + ":7000";
        way.roundTrip = 20e-6;
        if (from != to) survey.ways.push_back(way);
      }
  return survey;
}

inline void breakWays(Survey& survey, int to, const std::string& nic, Way how) {
  for (WayResult& way : survey.ways)
    if (way.to == to && way.nic == nic) {
      way.way = how;
      way.error = "no answer";
    }
}

inline ServerResult goodServer(const std::string& name, int rank) {
  ServerResult server;
  server.rank = rank;
  server.name = name;
  server.version = "1.2.3";
  server.transport = "bps";
  server.maxJobs = 256;
  return server;
}

inline ReduceResult goodReduce(size_t machines, uint64_t bytes, double seconds) {
  ReduceResult reduce;
  reduce.ran = true;
  reduce.bytes = bytes;
  reduce.seconds = seconds;
  reduce.machines = machines;
  reduce.workerShares.assign(machines, 1.0 / static_cast<double>(machines));
  return reduce;
}

}  // namespace bps::doctor::test
