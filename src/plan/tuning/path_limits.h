// The call sizes up to which calls take the single-owner path and the exchange path. All functions are pure. n is the
// number of machines, and B the rate of the slowest NIC.
//
// A small call may send more bytes in order to save messages and hops. Each path limit is the call size for which the
// path takes as long as another path: the single-owner path as the split path, the exchange path as the faster of the
// other two. The time of each path is a straight line through the times of its smallest call and of a call of b bytes,
// where b is the size of the largest small call. Both times are measured. b is less if the NICs would need more than
// kProbeSeconds for the kSmallProbeCalls single-owner calls of a probe. If b would then be hardly larger than the
// smallest split call, or if the smallest call takes that long, the times of the largest small call follow from the
// rate:
//
//   split         t b/B plus the time of the smallest call; the busiest NIC sends t bytes for a byte of a buffer
//   single owner  2(n-1)b/B plus the time of the smallest call
//   exchange      (n-1)b/B plus the time of the smallest call. Summation takes (n-1)b/S more, where S is kSumRate. If
//                 S > B, summation overlaps with receiving and costs no time.
//
// The rate alone is not enough: on fast networks NICs are not the only limit, and if one host plays several machines,
// the CPUs are the limit. Two machines always use the exchange path, because it sends no more bytes than the split path
// and saves a hop.
#pragma once
#include <cstddef>
#include <optional>

#include "src/plan/job_plan.h"

namespace bps {

struct NetworkCosts {
  double rate = 0;                                  // bytes per second
  double singleOwner = 0, split = 0, exchange = 0;  // seconds of the smallest call
  struct Larger {                                   // calls of `bytes` bytes
    size_t bytes = 0;
    double singleOwner = 0, split = 0, exchange = 0;  // seconds
  };
  std::optional<Larger> larger{};               // empty if it is not measured
  double message = constants::kMessageSeconds;  // seconds
};

// The number of machines.
inline size_t machines(const JobPlan& plan) { return plan.shares.workers.size(); }
// Returns the bytes that the busiest NIC sends for one byte of a call that is split; 0 if there is no network.
double busiestTraffic(const JobPlan& plan);

// The largest call that may take the single-owner path, and, unless there are two machines, the exchange path.
size_t largestSmallCall(const JobPlan& plan);
size_t singleOwnerLimit(const NetworkCosts& costs, const JobPlan& plan);
size_t exchangeLimit(const NetworkCosts& costs, const JobPlan& plan);

}  // namespace bps
