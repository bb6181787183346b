#include "src/plan/tuning.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace bps {
namespace {

constexpr double kRoundSeconds = 9e-3, kWindowSeconds = 3e-3;
constexpr size_t kMinTargetChunkBytes = 16U << 10;
constexpr double kMessageSeconds = 5e-6, kCrowdedMessageSeconds = 60e-6, kHopSeconds = 15e-6;
constexpr double kMinChunkMessageTimes = 4;  // a chunk takes at least as long on the NIC as so many messages cost,
                                             // and as one of every machine that shares the processors
constexpr double kChunkBytes = 200;          // headers of a chunk and of its packets, acknowledgements
constexpr size_t kPacketBytes = 1448;        // that a TCP packet of an Ethernet carries
constexpr size_t kHeaderBytes = 54;          // of the first chunk of a call; of the others 32
constexpr double kMessageBytes = 86;         // these, and an acknowledgement
constexpr double kSumRate = 2e8;             // at which a machine takes in, sums and answers a chunk, about
constexpr double kMinEndsFactor = 1.0 / 64;
constexpr double kChunkProbeSeconds = 0.1, kMinSpeedup = 0.9;
constexpr size_t kMinChunkProbeBytes = 1U << 20;
constexpr size_t kMaxTwoMachineExchangeBytes =
    4U << 20;                               // what two machines exchange, who send no byte more than by their shares
constexpr double kMaxRateCorrection = 1.5;  // a rate, for the ends of the call: too high a one costs more than too low
constexpr double kHostRate = 1e9;           // played on one host at so much, their sums take time from their sending
constexpr size_t kMaxSmallCallBytes = 64U
                                      << 10;  // a larger call is better summed piece by piece while more of it comes

size_t targetChunkBytesFor(double bytesPerSecond, const JobPlan& plan) {
  const auto most = static_cast<double>(plan.limits.targetChunkBytes);
  const double wanted = bytesPerSecond * kRoundSeconds / static_cast<double>(plan.shares.workers.size());
  return static_cast<size_t>(std::llround(std::clamp(wanted, std::min<double>(kMinTargetChunkBytes, most), most)));
}

size_t smallCallBytes(double bytes, const JobPlan& plan) {
  const size_t most = std::min(kMaxSmallCallBytes, plan.limits.maxChunkBytes);
  return bytes >= static_cast<double>(most) ? most : std::bit_floor(static_cast<size_t>(bytes));
}

// Servers would have no part in a call, nor would several ranks of a machine that drive the network.
size_t twoMachineExchangeBytes(double bytesPerSecond, const JobPlan& plan) {
  const bool hostBound = plan.machinesPerHost > 1 && bytesPerSecond >= kHostRate;
  const bool alone = plan.shares.servers.empty() && !plan.hasMultiRankMachine && !hostBound;
  return std::max(plan.limits.maxChunkBytes, alone ? kMaxTwoMachineExchangeBytes : 0);
}

}  // namespace

double busiestTraffic(const JobPlan& plan) {
  const size_t machines = plan.shares.workers.size();
  double most = 0;
  for (const double share : plan.shares.workers) most = std::max(most, workerTraffic(machines, share));
  for (const double share : plan.shares.servers) most = std::max(most, serverTraffic(machines, share));
  return most;
}

Blob encodeSeconds(double seconds) { return WireWriter().put(seconds).bytes(); }

Result<double> slowestSeconds(const std::vector<Blob>& times, const Roster& roster) {
  constexpr double kMostSeconds = 86400;  // the longest BPS_TIMEOUT
  double slowest = 0;
  for (size_t rank = 0; rank < times.size(); ++rank) {
    WireReader reader(times[rank]);
    const double seconds = reader.getDouble();
    if (!reader.finish("").ok() || !(seconds >= 0 && seconds <= kMostSeconds))
      return Status(Code::kRemote, roster.rankName(rank) + ": its time of a probe cannot be read");
    slowest = std::max(slowest, seconds);
  }
  return slowest;
}

double estimateRate(const Probe& smaller, const Probe& larger, double traffic) {
  const double alone = traffic * static_cast<double>(larger.bytes) / larger.seconds;
  const double bytes = static_cast<double>(larger.bytes - smaller.bytes), seconds = larger.seconds - smaller.seconds;
  return seconds > 0 ? std::clamp(traffic * bytes / seconds, alone, kMaxRateCorrection * alone) : alone;
}

double knownRate(const Roster& roster) {
  double least = roster.machines.front().bytesPerSecond;
  for (const Machine& machine : roster.machines) least = std::min(least, machine.bytesPerSecond);
  return least;
}

size_t chunkProbeBytes(double bytesPerSecond, const Tuning& tuning, const JobPlan& plan) {
  if (!plan.hasMultiRankMachine || tuning.limits.targetChunkBytes >= plan.limits.targetChunkBytes) return 0;
  const auto bytes = static_cast<size_t>(bytesPerSecond * kChunkProbeSeconds);
  // A call of less would be cut alike, and says that the network itself is slow.
  return bytes < kMinChunkProbeBytes ? 0 : std::min(bytes, kLargeProbe);
}

Tuning chooseFasterChunks(Tuning tuning, double tuned, double whole, const JobPlan& plan) {
  if (whole >= kMinSpeedup * tuned) return tuning;
  tuning.limits.targetChunkBytes = plan.limits.targetChunkBytes;
  tuning.limits.minChunkBytes = std::max(plan.limits.minChunkBytes, plan.limits.targetChunkBytes / 4);
  tuning.window = plan.depth;
  return tuning;
}

Tuning tuningFor(double bytesPerSecond, const JobPlan& plan) {
  Tuning tuning{plan.limits, plan.depth};
  CutLimits& limits = tuning.limits;
  limits.targetChunkBytes = targetChunkBytesFor(bytesPerSecond, plan);
  limits.packetBytes = kPacketBytes;
  limits.headerBytes = kHeaderBytes;
  limits.messageCostBytes = static_cast<size_t>(kMessageBytes + kMessageSeconds * bytesPerSecond);
  const auto n = static_cast<double>(plan.shares.workers.size());
  const double window = kWindowSeconds * bytesPerSecond / (n * static_cast<double>(limits.targetChunkBytes));
  tuning.window = static_cast<size_t>(
      std::clamp(window, std::min(2.0, static_cast<double>(plan.depth)), static_cast<double>(plan.depth)));
  const bool crowded = plan.machinesPerHost > 1;
  const double message = crowded ? kCrowdedMessageSeconds : kMessageSeconds;
  const double ends = plan.shares.servers.empty() ? std::clamp(bytesPerSecond / kSumRate, kMinEndsFactor, 1.0) : 1.0;
  limits.chunkCostBytes = static_cast<size_t>((kChunkBytes + kMessageSeconds * bytesPerSecond) / ends);
  const double messages = std::max(kMinChunkMessageTimes, static_cast<double>(plan.machinesPerHost));
  const auto finest = static_cast<size_t>(messages * message * bytesPerSecond);
  const size_t coarsest = crowded ? limits.targetChunkBytes : limits.targetChunkBytes / 2;
  limits.minChunkBytes = std::clamp(finest, limits.minChunkBytes, std::max(limits.minChunkBytes, coarsest));
  // Twice (n-1)(1 - 1/n) b/B against twice n-1 messages.
  if (plan.measureSingleOwnerPath)
    limits.singleOwnerBytes = smallCallBytes(message * n / (n - 1) * bytesPerSecond, plan);
  // (n-1)(1 - 2/n) b/B against a hop; two machines send no byte more.
  if (plan.measureExchangePath)
    limits.exchangeBytes = n > 2 ? smallCallBytes(kHopSeconds * n / ((n - 1) * (n - 2)) * bytesPerSecond, plan)
                                 : twoMachineExchangeBytes(bytesPerSecond, plan);
  return tuning;
}

}  // namespace bps
