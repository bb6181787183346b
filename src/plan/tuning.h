// Tuning: how a call should be cut, from how fast the slowest NIC of the job turned out to be. Pure.
//
// A chunk is what must be there as a whole before it can be summed and answered. A call loses about the time of one
// round, a chunk of every owner, at its ends, and what its chunks cost: their headers, those of their packets and the
// acknowledgements, some 200 bytes each, and what the NIC could carry while a message is handled. So larger calls have
// larger chunks (CutLimits::chunkCostBytes). The largest is bounded by what waits in an owner's queue if all machines
// send to it at the same time: a chunk of each is to last no more than 9 ms on its NIC, two of them less than the 20 ms
// that a port of a switch is expected to hold. docs/how-the-cut-works.md has what happens beyond.
//
// Without servers the ends cost less: every machine pushes while it is pushed to and answers while it is answered, the
// chunks of one round while the last of the next one come. Of the last round only the time to sum it is lost, so chunks
// grow as if each cost more, on slow networks; much more at once makes machines that fall out of step wait for each
// other.
//
// 'window' rounds of chunks are under way: two, since one round is sent while the one before it is answered, or what
// lasts 3 ms where the limit makes rounds shorter, up to plan.depth, so that a late wake-up does not stop the NIC.
//
// Small calls are not cut so fine that the messages take more time than the bytes: where machines share a host and
// 2 GB/s, 512 KiB of two of them took 340 us in chunks of 16 KiB and 113 in chunks of 128; 1 MiB of four on two CPUs
// took 1.6 times as long in chunks of 40 KiB as whole, since nothing is done at the same time as anything else. The
// more machines share a host, the longer each of them waits for a processor (docs/how-the-cut-works.md).
//
// Where many ranks share few processors, what a chunk costs these is longer than its time on the NIC, and the rate that
// is measured is theirs. Small chunks make that worse, so where machines have several ranks a chunk is made small only
// if that is seen to make a call quicker.
//
// Small calls trade bytes for messages. Whole at one owner, a call of b bytes takes 2(n-1)b/B of its NIC instead of
// 2(n-1)b/nB, and saves n-1 messages each way; direct, it takes (n-1)b/B and saves a hop. Each is worth while as long
// as the extra time is less than what the messages, or the hop, would cost. Two machines send no byte more directly
// than by their shares: up to 4 MiB, about what a CPU's caches hold, they do so where nobody else has a part in the
// work.
#pragma once
#include <cstddef>

#include "src/plan/job_plan.h"

namespace bps {

// The calls that measure at the start. A small one tells whether the network is fast: then a large one follows and says
// the rate. Else that is what one of middle size takes longer than the small one; where even that lasts, it alone says
// the rate. What counts is the quickest of several, unless they last: the first calls on new connections take up to
// four times as long as those that follow.
inline constexpr size_t kSmallProbe = 256U << 10, kMiddleProbe = 1U << 20, kLargeProbe = 4U << 20;
inline constexpr double kFastSeconds = 0.008, kSlowSeconds = 0.05, kRepeatSeconds = 0.1;
inline constexpr int kProbes = 3;
inline constexpr size_t kProbeChunkBytes = 32U << 10;

// Bytes that the busiest NIC sends for one byte of a call; 0 where there is no network.
double busiestTraffic(const JobPlan& plan);
// A call that was timed.
struct Probe {
  size_t bytes = 0;
  double seconds = 0;
};
// Of a gather of such times the slowest rank's. Fails naming a rank whose time is none.
Blob encodeSeconds(double seconds);
Result<double> slowestSeconds(const std::vector<Blob>& times, const Roster& roster);
// The rate by what the larger call took longer than the smaller: much of a small one is its ends. No less than by the
// larger alone, nor more than half as much again.
double estimateRate(const Probe& smaller, const Probe& larger, double traffic);
// The slowest machine's rate, in bytes per second, where all machines say theirs (BPS_BANDWIDTH); 0: not known.
double knownRate(const Roster& roster);
struct Tuning {
  CutLimits limits;
  size_t window = 1;  // rounds under way on one lane, at most plan.depth
};

// Bytes of a call that shows, tuned and with the plan's chunks, whether small chunks pay; 0: nothing is to be shown.
size_t chunkProbeBytes(double bytesPerSecond, const Tuning& tuning, const JobPlan& plan);
// The answer: seconds of that call with the tuned chunks, and with the plan's.
Tuning chooseFasterChunks(Tuning tuning, double tuned, double whole, const JobPlan& plan);

// plan.limits with what follows from the rate. The chunk of the largest share is at most plan.limits.targetChunkBytes.
Tuning tuningFor(double bytesPerSecond, const JobPlan& plan);

}  // namespace bps
