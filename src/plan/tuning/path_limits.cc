#include "src/plan/tuning/path_limits.h"

#include <algorithm>
#include <bit>

namespace bps {
namespace {

// Returns a power of two, so that measurements that differ slightly give the same limit.
size_t callLimit(double bytes, size_t most) {
  return bytes >= static_cast<double>(most) ? most : std::bit_floor(static_cast<size_t>(std::max(bytes, 0.0)));
}

// The seconds for which summation on the exchange path delays each received byte; see the header.
double exposedSum(const NetworkCosts& costs) { return std::max(0.0, 1 / constants::kSumRate - 1 / costs.rate); }

// The times of the largest small call if the NICs are the limit.
NetworkCosts::Larger largerByRate(const NetworkCosts& costs, const JobPlan& plan) {
  const size_t bytes = largestSmallCall(plan);
  const auto peers = static_cast<double>(machines(plan) - 1);
  const double seconds = static_cast<double>(bytes) / costs.rate;
  return {bytes, costs.singleOwner + 2 * peers * seconds, costs.split + busiestTraffic(plan) * seconds,
          costs.exchange + peers * (seconds + static_cast<double>(bytes) * exposedSum(costs))};
}

// The times of a path: of its smallest call, and of a larger one.
struct PathTimes {
  double smallest = 0, larger = 0;
};

// Returns the least call size, up to `most`, for which `path` is no longer faster than `other`. The larger calls have
// `bytes` bytes.
size_t fasterUpTo(const PathTimes& path, const PathTimes& other, size_t bytes, size_t most) {
  const double saved = other.smallest - path.smallest, lost = path.larger - other.larger;
  if (saved <= 0) return 0;
  return saved + lost <= 0 ? most : callLimit(static_cast<double>(bytes) * saved / (saved + lost), most);
}

}  // namespace

double busiestTraffic(const JobPlan& plan) {
  double most = 0;
  for (const double share : plan.shares.workers) most = std::max(most, workerTraffic(machines(plan), share));
  for (const double share : plan.shares.servers) most = std::max(most, serverTraffic(machines(plan), share));
  return most;
}

size_t largestSmallCall(const JobPlan& plan) {
  return std::min(constants::kMaxSmallCallBytes, plan.limits.maxChunkBytes);
}

size_t singleOwnerLimit(const NetworkCosts& costs, const JobPlan& plan) {
  const auto larger = costs.larger.value_or(largerByRate(costs, plan));
  return fasterUpTo({costs.singleOwner, larger.singleOwner}, {costs.split, larger.split}, larger.bytes,
                    largestSmallCall(plan));
}

size_t exchangeLimit(const NetworkCosts& costs, const JobPlan& plan) {
  const size_t most = largestSmallCall(plan);
  if (machines(plan) == 2) {
    // The exchange path uses one rail and no server.
    const bool mayBeLarge = plan.shares.servers.empty() && plan.rails == 1;
    return callLimit(constants::kHopSeconds / exposedSum(costs), mayBeLarge ? constants::kMaxExchangeBytes : most);
  }
  const auto larger = costs.larger.value_or(largerByRate(costs, plan));
  const PathTimes exchange{costs.exchange, larger.exchange};
  const size_t limit = fasterUpTo(exchange, {costs.split, larger.split}, larger.bytes, most);
  if (!plan.measureSingleOwnerPath && plan.limits.singleOwnerBytes == 0) return limit;  // no call has a single owner
  return std::min(limit, fasterUpTo(exchange, {costs.singleOwner, larger.singleOwner}, larger.bytes, most));
}

}  // namespace bps
