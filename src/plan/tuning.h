// Tuning: how calls are cut and which path they take, derived from a few measured numbers by
// formulas that are the same at every rate. All functions are pure.
//
// n is the number of worker machines. The inputs are the members of NetworkCosts: the rate B of the
// slowest NIC, the time of the smallest call on each path, and the cost of a message.
//
//   chunk of the largest share <= kRoundSeconds B / n, kMaxRoundBytes / n
//       One chunk of every machine may wait at an owner's port. So a round fills the port's queue
//       for at most kRoundSeconds.
//   cost of a chunk = n (kChunkHeaderBytes + message B) / (2 t owners)    in bytes; see cutter.h
//       A call of b bytes in R rounds takes t b/B, where t is the number of bytes that the busiest NIC
//       sends for one byte of the buffer. Two of the R rounds fill and drain the pipeline: 2 t b / (B R)
//       more. A round costs n message more. The sum is least for R^2 = (b / owners) / cost of a chunk.
//   bytes of a latency = singleOwner B / n             of one owner's chunks; see cutter.h
//
// A small call may send more bytes in order to save messages and hops. Each path limit is the call size for which the
// path takes as long as another path: the single-owner path as the split path, the exchange path as the faster of the
// other two. The time of each path is a straight line through the times of its smallest call and of a call of b bytes.
// Both are measured. b is kMaxSmallCallBytes, or less if the NICs would need more than kProbeSeconds for a single-owner
// call of this size. If b would be smaller than the smallest split call, the times follow from the rate:
//
//   split         t b/B plus the time of the smallest call; the busiest NIC sends t bytes for a byte of a buffer
//   single owner  2(n-1)b/B plus the time of the smallest call
//   exchange      (n-1)b/B plus the time of the smallest call. Summation takes (n-1)b/S more, where S is kSumRate. If
//                 S > B, summation overlaps with receiving and costs no time.
//
// On fast networks the NICs are not the only limit, and on a host that plays several machines they are none. Two
// machines always use the exchange path, because it sends no more bytes than the split path and saves a hop.
//
// The rate comes from BPS_BANDWIDTH if all machines set it. The other inputs are measured: at the
// end of its start, a communicator makes all-reduces that every rank times. All ranks use the time
// of the slowest rank, so all ranks derive the same tuning.
#pragma once
#include <cstddef>
#include <functional>
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

struct Tuning {
  CutLimits limits;
  NetworkCosts costs;  // the rate is 0 if there is no network
};

// Returns plan.limits with the values that follow from the costs. Limits that the user has set do
// not change.
Tuning tuningFor(const NetworkCosts& costs, const JobPlan& plan);

// Runs `calls` all-reduces of `bytes` one after the other on all ranks. Returns the mean time of a
// call on the slowest rank in seconds, which is the same number on all ranks.
using TimedCalls = std::function<Result<double>(size_t bytes, int calls, const CutLimits& limits)>;
// Measures what is not given, and returns the tuning for it.
Result<Tuning> chooseTuning(const JobPlan& plan, const Roster& roster, const TimedCalls& run);

// Returns how long a communicator may move no data although nothing is wrong. Chunks of other calls that are in flight
// pass the NICs first, which takes up to inFlight seconds, and then the chunks of this call, which take as long:
//
//   inFlight = kMinWindow + kSpareRounds rounds + the time of the smallest single-owner call
//
// Every round passes a NIC twice, as contributions and as sums. The result is at least kMinHoldSeconds.
double holdSeconds(const Tuning& tuning, const JobPlan& plan);

}  // namespace bps
