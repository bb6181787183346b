#include "src/plan/tuning.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "src/base/format.h"

namespace bps {
namespace {

// Returns the bytes that the busiest NIC sends for one byte of a call; 0 if there is no network.
double busiestTraffic(const JobPlan& plan) {
  const size_t machines = plan.shares.workers.size();
  double most = 0;
  for (const double share : plan.shares.workers) most = std::max(most, workerTraffic(machines, share));
  for (const double share : plan.shares.servers) most = std::max(most, serverTraffic(machines, share));
  return most;
}

// Returns the rate of the slowest machine, or 0 if a machine does not give its rate.
double givenRate(const Roster& roster) {
  double least = roster.machines.front().bytesPerSecond;
  for (const Machine& machine : roster.machines) least = std::min(least, machine.bytesPerSecond);
  return least;
}

size_t targetChunkBytes(double rate, const JobPlan& plan) {
  const auto most = static_cast<double>(plan.limits.targetChunkBytes);
  const double least = std::min<double>(2 * constants::kMinChunkBytes, most);
  const double wanted = rate * constants::kRoundSeconds / static_cast<double>(plan.shares.workers.size());
  return static_cast<size_t>(std::llround(std::clamp(wanted, least, most)));
}

// Rounds the limit down to a power of two or to `most`, so that slightly different measured rates
// give the same limit.
size_t callLimit(double bytes, size_t most) {
  return bytes >= static_cast<double>(most) ? most : std::bit_floor(static_cast<size_t>(bytes));
}

size_t exchangeLimit(double rate, const JobPlan& plan, size_t smallCall) {
  const auto n = static_cast<double>(plan.shares.workers.size());
  const double exposedSum = std::max(0.0, 1 / constants::kSumRate - 1 / rate);  // s per byte not hidden by receiving
  const double secondsPerByte = (n - 1) * (n - 2) / (n * rate) + (n - 1) * exposedSum;
  // With two machines, the exchange path sends no more bytes than the split path. The exchange path
  // uses only one rail and no server.
  const bool mayBeLarge = plan.shares.workers.size() == 2 && plan.shares.servers.empty() && plan.rails == 1;
  return callLimit(constants::kHopSeconds / secondsPerByte, mayBeLarge ? constants::kMaxExchangeBytes : smallCall);
}

}  // namespace

Tuning tuningFor(double rate, const JobPlan& plan) {
  Tuning tuning{plan.limits, plan.depth};
  CutLimits& limits = tuning.limits;
  const auto n = static_cast<double>(plan.shares.workers.size());
  limits.targetChunkBytes = targetChunkBytes(rate, plan);
  limits.chunkCostBytes = static_cast<size_t>(constants::kChunkHeaderBytes + constants::kMessageSeconds * rate);
  const double window = constants::kWindowSeconds * rate / (n * static_cast<double>(limits.targetChunkBytes));
  tuning.window = static_cast<size_t>(std::clamp<double>(window, constants::kMinWindow, constants::kMaxWindow));
  const size_t smallCall = std::min(constants::kMaxSmallCallBytes, plan.limits.maxChunkBytes);
  if (plan.measureSingleOwnerPath)
    limits.singleOwnerBytes = callLimit(constants::kMessageSeconds * n / (n - 1) * rate, smallCall);
  if (plan.measureExchangePath) limits.exchangeBytes = exchangeLimit(rate, plan, smallCall);
  return tuning;
}

Result<Tuning> chooseTuning(const JobPlan& plan, const Roster& roster, const TimedCall& run) {
  const double traffic = busiestTraffic(plan);
  if (traffic == 0) return Tuning{plan.limits, plan.depth};
  if (const double given = givenRate(roster); given > 0) return tuningFor(given, plan);
  const auto rateOf = [&](size_t bytes, double seconds) { return traffic * static_cast<double>(bytes) / seconds; };

  Tuning tuning{plan.limits, plan.depth};
  tuning.limits.targetChunkBytes = std::min(constants::kProbeChunkBytes, plan.limits.targetChunkBytes);
  const double first = BPS_TRY(run(constants::kFirstProbeBytes, tuning));
  tuning = tuningFor(rateOf(constants::kFirstProbeBytes, first), plan);
  if (first >= constants::kProbeSeconds) return tuning;

  // The first call on new connections takes up to four times as long as later ones, so larger calls
  // measure the rate again.
  const double wanted = static_cast<double>(constants::kFirstProbeBytes) * constants::kProbeSeconds / first;
  const size_t bytes =
      wanted < static_cast<double>(constants::kMaxProbeBytes) ? static_cast<size_t>(wanted) : constants::kMaxProbeBytes;
  double fastest = BPS_TRY(run(bytes, tuning));
  for (int probe = 1; probe < constants::kProbes; ++probe) fastest = std::min(fastest, BPS_TRY(run(bytes, tuning)));
  return tuningFor(rateOf(bytes, fastest), plan);
}

Blob encodeSeconds(double seconds) { return WireWriter().put(seconds).bytes(); }

Result<double> slowestSeconds(const std::vector<Blob>& times, const Roster& roster) {
  constexpr double kMaxSeconds = 86400;  // the longest BPS_TIMEOUT
  double slowest = 0;
  for (size_t rank = 0; rank < times.size(); ++rank) {
    WireReader reader(times[rank]);
    const double seconds = reader.getDouble();
    if (!reader.finish("").ok() || !(seconds >= 0 && seconds <= kMaxSeconds))
      return failure(Code::kRemote, "{}: the time of its probe is not valid", roster.rankName(rank));
    slowest = std::max(slowest, seconds);
  }
  return slowest;
}

}  // namespace bps
