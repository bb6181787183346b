// The counters of a server, for its metrics.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "src/service/service_counters.h"

namespace bps {

// The counters of an open job.
struct JobCounters {
  // The first ranks get a sample of their own. The wait for all further ranks is added up, so that a large job does not
  // fill the page.
  static constexpr size_t kMaxWaits = 64;
  struct RankWait {
    size_t rank = 0;
    double seconds = 0;
  };

  uint64_t id = 0;
  size_t machines = 0, ranks = 0;
  ServiceCounters service;
  std::vector<RankWait> waits;  // of the rank that drives the network of each machine; ordered by machine and rail
  bool furtherRanks = false;
  double otherWaits = 0;  // of all further ranks
};

// The counters of one summation thread, or of all.
struct ThreadCounters {
  std::vector<JobCounters> jobs;
  ServiceCounters endedJobs;
};

}  // namespace bps
