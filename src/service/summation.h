// Summation: what a communicator's sums depend on, wherever they are made: in a SumService or on the
// exchange path.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "src/wire/roster.h"

namespace bps {

struct Summation {
  size_t machines = 0;
  uint64_t ranks = 0;        // number of ranks on all machines
  std::vector<bool> summed;  // for each machine, whether it contributes the sum of several ranks
  bool checksum = false;     // every chunk carries a checksum, see DataHeader
  int reduceThreads = 1;
  std::chrono::milliseconds waitReportTime{10000};    // after this time without progress, the hub learns of a wait
  std::function<std::string(size_t machine)> nameOf;  // returns the machine's name for messages

  // The roster must outlive the Summation.
  static Summation of(const Roster& roster, int reduceThreads) {
    Summation sums;
    sums.machines = roster.machines.size();
    sums.ranks = roster.ranks.size();
    for (const Machine& machine : roster.machines) sums.summed.push_back(machine.ranks.size() > 1);
    sums.checksum = roster.settings.checksum;
    sums.reduceThreads = reduceThreads;
    sums.waitReportTime = roster.waitReportTime();
    sums.nameOf = [&roster](size_t machine) { return roster.endpointName(machine); };
    return sums;
  }
};

// A call that waits, and the endpoint for which it waits.
struct EndpointWait {
  uint64_t call = 0;
  size_t endpoint = 0;
};

}  // namespace bps
