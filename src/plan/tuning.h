// Tuning: how calls are cut and how many rounds are in flight, derived from the rate of the slowest NIC. Pure.
//
// The formula has four inputs: the rate B in bytes per second, what a message costs, what a hop costs, and how fast a
// machine sums (constants.h has the last three). n is the number of worker machines.
//
//   chunk of the largest share <= kRoundSeconds B / n   One chunk of every machine may wait at an owner's port.
//   cost of a chunk            = kChunkHeaderBytes + kMessageSeconds B      in bytes; see cutter.h
//   window                     = kWindowSeconds B / (n chunk) rounds        kMinWindow at least, kMaxWindow at most
//
// Small calls trade bytes for messages and hops. Each limit is the size at which both ways take the same time:
//
//   single owner: b bytes take 2(n-1)b/B instead of 2(n-1)b/nB, and save n-1 messages each way.
//   exchange:     b bytes take (n-1)b/B instead of 2(n-1)b/nB and save a hop. They also take (n-1)b/S
//                 more to sum (S: kSumRate). That hides behind receiving (n-1)b/B if S > B.
//
// The rate is given by all machines (BPS_BANDWIDTH) or measured: a communicator's start ends with all-reduces that
// every rank times. All ranks use the slowest rank's time, so all derive the same tuning.
#pragma once
#include <cstddef>
#include <functional>

#include "src/plan/job_plan.h"

namespace bps {

struct Tuning {
  CutLimits limits;
  size_t window = 1;  // rounds in flight on one lane, at most JobPlan::depth
};

// plan.limits with what follows from the rate. Limits that the user gave stay as they are.
Tuning tuningFor(double bytesPerSecond, const JobPlan& plan);

// Runs one all-reduce of so many bytes on all ranks. Returns the slowest rank's seconds, the same number on all ranks.
using TimedCall = std::function<Result<double>(size_t bytes, const Tuning& tuning)>;
// The tuning for the rate that all machines give, or else for the rate that a few timed calls show.
Result<Tuning> chooseTuning(const JobPlan& plan, const Roster& roster, const TimedCall& run);

// What ranks exchange after a timed call. slowestSeconds() fails with the name of a rank that sent no valid time.
Blob encodeSeconds(double seconds);
Result<double> slowestSeconds(const std::vector<Blob>& times, const Roster& roster);

}  // namespace bps
