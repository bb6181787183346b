// Tuning: how calls are cut and how many rounds are in flight, derived from the rate of the slowest
// NIC. All functions are pure.
//
// The formulas have four inputs: the rate B in bytes per second, the cost of a message, the cost of
// a hop, and the rate at which a machine sums. The last three inputs are in constants.h. n is the
// number of worker machines.
//
//   chunk of the largest share <= kRoundSeconds B / n   One chunk of every machine may wait at an owner's port.
//   cost of a chunk            = kChunkHeaderBytes + kMessageSeconds B      in bytes; see cutter.h
//   window                     = kWindowSeconds B / (n chunk) rounds        kMinWindow at least, kMaxWindow at most
//
// A small call may send more bytes in order to save messages and hops. Each path limit is the call
// size b for which the path takes as long as the split path:
//
//   The single-owner path takes 2(n-1)b/B instead of 2(n-1)b/nB, and saves n-1 messages each way.
//   The exchange path takes (n-1)b/B instead of 2(n-1)b/nB, and saves a hop. Summation takes (n-1)b/S
//   more, where S is kSumRate. If S > B, summation overlaps with receiving and costs no time.
//
// The rate comes from BPS_BANDWIDTH if all machines set it. Otherwise the rate is measured: at the
// end of its start, a communicator makes all-reduces that every rank times. All ranks use the time
// of the slowest rank, so all ranks derive the same tuning.
#pragma once
#include <cstddef>
#include <functional>

#include "src/plan/job_plan.h"

namespace bps {

struct Tuning {
  CutLimits limits;
  size_t window = 1;  // rounds in flight on one lane, at most JobPlan::depth
};

// Returns plan.limits with the values that follow from the rate. Limits that the user has set do
// not change.
Tuning tuningFor(double bytesPerSecond, const JobPlan& plan);

// Runs one all-reduce of `bytes` on all ranks. Returns the time of the slowest rank in seconds,
// which is the same number on all ranks.
using TimedCall = std::function<Result<double>(size_t bytes, const Tuning& tuning)>;
// Returns the tuning for the rate that all machines give. If a machine gives no rate, measures the
// rate with a few timed calls.
Result<Tuning> chooseTuning(const JobPlan& plan, const Roster& roster, const TimedCall& run);

// encodeSeconds() encodes the time that a rank brings to the gather after a timed call.
// slowestSeconds() returns the longest time. If a rank sent no valid time, the error names this
// rank.
Blob encodeSeconds(double seconds);
Result<double> slowestSeconds(const std::vector<Blob>& times, const Roster& roster);

}  // namespace bps
