#include "src/plan/tuning/tuning.h"

#include <algorithm>
#include <cmath>

#include "src/base/format.h"

namespace bps {
namespace {

// Returns the rate of the slowest machine, or 0 if a machine does not give its rate.
double givenRate(const Roster& roster) {
  double least = roster.machines.front().bytesPerSecond;
  for (const Machine& machine : roster.machines) least = std::min(least, machine.bytesPerSecond);
  return least;
}

size_t targetChunkBytes(double rate, const JobPlan& plan) {
  const auto n = static_cast<double>(machines(plan));
  const auto most = static_cast<double>(plan.limits.targetChunkBytes);
  const double least = std::min<double>(2 * constants::kMinChunkBytes, most);
  return static_cast<size_t>(std::llround(std::clamp(rate * constants::kRoundSeconds / n, least, most)));
}

// See the header.
size_t chunkCostBytes(const NetworkCosts& costs, const JobPlan& plan) {
  const auto owners = static_cast<double>(
      std::count_if(plan.weights.begin(), plan.weights.end(), [](uint64_t weight) { return weight > 0; }));
  const double perRound =
      static_cast<double>(machines(plan)) * (constants::kChunkHeaderBytes + costs.message * costs.rate);
  return std::max<size_t>(1, static_cast<size_t>(std::llround(perRound / (2 * busiestTraffic(plan) * owners))));
}

size_t latencyBytes(const NetworkCosts& costs, const JobPlan& plan) {
  return static_cast<size_t>(costs.singleOwner * costs.rate / static_cast<double>(machines(plan)));
}

// Measures the network with timed calls. Every measured time is the least of several probes.
class Prober {
 public:
  Prober(const JobPlan& plan, const TimedCalls& run) : plan_(plan), run_(run), limits_(plan.limits) {
    limits_.targetChunkBytes = std::min(constants::kProbeChunkBytes, plan.limits.targetChunkBytes);
    limits_.exchangeBytes = limits_.singleOwnerBytes = 0;
    limits_.chunkCostBytes = SIZE_MAX / 2;  // chunks of the target size
  }

  Status measureSmallCalls(NetworkCosts& costs) {
    BPS_TRY(smallCall(8, 8, 0));  // on new connections, the first call takes up to four times as long
    costs.singleOwner = BPS_TRY(smallCall(8, 8, 0));
    costs.split = BPS_TRY(smallCall(smallestSplitBytes(), 0, 0));
    if (limits_.exchangeChunkBytes > 0) costs.exchange = BPS_TRY(smallCall(8, 0, 8));
    return {};
  }

  // Measures the rate with calls that take about kProbeSeconds. Calls with smaller chunks take
  // longer by the cost of their messages, if messages are the limit.
  Status measureLargeCalls(NetworkCosts& costs) {
    size_t bytes = constants::kFirstProbeBytes;
    // On a new connection, TCP needs a few round trips before it sends at full rate.
    const double first = withoutLatency(BPS_TRY(run_(bytes, 1, limits_)), kSlowStartTrips * costs.singleOwner);
    costs.rate = rateOf(bytes, first);
    if (first >= constants::kProbeSeconds) return {};
    const double wanted = static_cast<double>(bytes) * constants::kProbeSeconds / first;
    bytes = static_cast<size_t>(std::min(wanted, static_cast<double>(constants::kMaxProbeBytes)));
    limits_.targetChunkBytes = targetChunkBytes(costs.rate, plan_);
    limits_.latencyBytes = latencyBytes(costs, plan_);
    const double coarse = withoutLatency(BPS_TRY(fastest(bytes, 1)), costs.singleOwner);
    costs.rate = rateOf(bytes, coarse);
    const size_t coarseRounds = roundsOf(bytes);
    const size_t least = std::min(constants::kMinChunkBytes, limits_.targetChunkBytes);
    limits_.targetChunkBytes = std::max(least, limits_.targetChunkBytes / constants::kFineProbeChunks);
    const double fine = withoutLatency(BPS_TRY(fastest(bytes, 1)), costs.singleOwner);
    const size_t fineRounds = roundsOf(bytes);
    if (fineRounds <= coarseRounds || fine - coarse < constants::kProbeNoise * coarse) return {};
    const double round = (fine - coarse) / static_cast<double>(fineRounds - coarseRounds);
    costs.message = std::max(costs.message, round / static_cast<double>(machines(plan_)));
    costs.rate = rateOf(bytes, std::max(coarse / 4, coarse - round * static_cast<double>(coarseRounds)));
    return {};
  }

  // Needs the other costs, because the calls are cut like those of the application.
  Status measureLargerCalls(NetworkCosts& costs) {
    const double most = constants::kProbeSeconds / constants::kSmallProbeCalls;  // seconds of a call
    const double peers = static_cast<double>(machines(plan_) - 1);
    const double bytes = std::min(most * costs.rate / (2 * peers), static_cast<double>(largestSmallCall(plan_)));
    if (bytes < kLargerCallFactor * static_cast<double>(smallestSplitBytes()) || costs.singleOwner > most) return {};
    limits_ = tuningFor(costs, plan_).limits;
    NetworkCosts::Larger larger{.bytes = static_cast<size_t>(bytes)};
    larger.singleOwner = BPS_TRY(smallCall(larger.bytes, larger.bytes, 0));
    larger.split = BPS_TRY(smallCall(larger.bytes, 0, 0));
    if (limits_.exchangeChunkBytes > 0) larger.exchange = BPS_TRY(smallCall(larger.bytes, 0, larger.bytes));
    costs.larger = larger;
    return {};
  }

 private:
  static constexpr double kSlowStartTrips = 4;
  static constexpr double kLargerCallFactor = 4;  // the least size of a larger call, in smallest split calls
  // The time that a call's bytes took. A noisy latency must not make this time vanish.
  static double withoutLatency(double seconds, double latency) { return std::max(seconds / 4, seconds - latency); }

  Result<double> fastest(size_t bytes, int calls) {
    double least = BPS_TRY(run_(bytes, calls, limits_));
    for (int probe = 1; probe < constants::kProbes; ++probe)
      least = std::min(least, BPS_TRY(run_(bytes, calls, limits_)));
    return least;
  }
  size_t smallestSplitBytes() const { return plan_.weights.size() * constants::kQuantumBytes; }
  Result<double> smallCall(size_t bytes, size_t singleOwnerBytes, size_t exchangeBytes) {
    limits_.singleOwnerBytes = singleOwnerBytes;
    limits_.exchangeBytes = exchangeBytes;
    return fastest(bytes, constants::kSmallProbeCalls);
  }
  double rateOf(size_t bytes, double seconds) const {
    return busiestTraffic(plan_) * static_cast<double>(bytes) / seconds;
  }
  size_t roundsOf(size_t bytes) const {
    double share = 0;
    for (const auto* shares : {&plan_.shares.workers, &plan_.shares.servers})
      for (const double each : *shares) share = std::max(share, each);
    return static_cast<size_t>(
        std::ceil(share * static_cast<double>(bytes) / static_cast<double>(limits_.targetChunkBytes)));
  }

  const JobPlan& plan_;
  const TimedCalls& run_;
  CutLimits limits_;
};

}  // namespace

Tuning tuningFor(const NetworkCosts& costs, const JobPlan& plan) {
  Tuning tuning{plan.limits, costs};
  CutLimits& limits = tuning.limits;
  limits.targetChunkBytes = targetChunkBytes(costs.rate, plan);
  limits.chunkCostBytes = chunkCostBytes(costs, plan);
  limits.latencyBytes = latencyBytes(costs, plan);
  if (plan.measureSingleOwnerPath) limits.singleOwnerBytes = singleOwnerLimit(costs, plan);
  if (plan.measureExchangePath) limits.exchangeBytes = exchangeLimit(costs, plan);
  return tuning;
}

double holdSeconds(const Tuning& tuning, const JobPlan& plan) {
  if (tuning.costs.rate <= 0) return constants::kMinHoldSeconds;
  const double round = static_cast<double>(machines(plan) * tuning.limits.targetChunkBytes) / tuning.costs.rate;
  const double inFlight = 2 * (constants::kMinWindow + constants::kSpareRounds) * round + tuning.costs.singleOwner;
  return std::max(constants::kMinHoldSeconds, 2 * inFlight);
}

Result<Tuning> chooseTuning(const JobPlan& plan, const Roster& roster, const TimedCalls& run) {
  if (plan.bcube || busiestTraffic(plan) == 0) return Tuning{plan.limits, {}};
  Prober prober(plan, run);
  NetworkCosts costs;
  BPS_TRY(prober.measureSmallCalls(costs));
  costs.rate = givenRate(roster);
  if (costs.rate == 0) BPS_TRY(prober.measureLargeCalls(costs));
  if (machines(plan) > 2 && (plan.measureSingleOwnerPath || plan.measureExchangePath))
    BPS_TRY(prober.measureLargerCalls(costs));
  return tuningFor(costs, plan);
}

}  // namespace bps
