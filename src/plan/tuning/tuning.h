// Tuning: how calls are cut and which path they take, derived from a few measured numbers by
// formulas that are the same at every rate. All functions are pure.
//
// n is the number of worker machines. The inputs are the members of NetworkCosts: the rate B of the
// slowest NIC, the times of small calls on each path, and the cost of a message.
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
// path_limits.h says up to which size a call takes which path.
//
// The rate comes from BPS_BANDWIDTH if all machines set it. The other inputs are measured: at the
// end of its start, a communicator makes all-reduces that every rank times. All ranks use the time
// of the slowest rank, so all ranks derive the same tuning.
#pragma once
#include <cstddef>
#include <functional>

#include "src/plan/job_plan.h"
#include "src/plan/tuning/path_limits.h"

namespace bps {

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
