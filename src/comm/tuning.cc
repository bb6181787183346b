#include "src/comm/tuning.h"

#include <algorithm>
#include <bit>

namespace bps {
namespace {

constexpr double kUnitSeconds = 0.75e-3;
constexpr size_t kLeastUnit = 16U << 10;

}  // namespace

double busiestTraffic(const JobPlan& plan) {
  const size_t machines = plan.shares.workers.size();
  double most = 0;
  for (const double share : plan.shares.workers) most = std::max(most, workerTraffic(machines, share));
  for (const double share : plan.shares.servers) most = std::max(most, serverTraffic(machines, share));
  return most;
}

double knownRate(const Roster& roster) {
  double least = roster.machines.front().bytesPerSecond;
  for (const Machine& machine : roster.machines) least = std::min(least, machine.bytesPerSecond);
  return least;
}

size_t unitFor(double bytesPerSecond, const JobPlan& plan) {
  const double most = static_cast<double>(plan.limits.unitBytes);
  const double wanted = std::clamp(bytesPerSecond * kUnitSeconds, std::min<double>(kLeastUnit, most), most);
  return wanted == most ? plan.limits.unitBytes : std::bit_floor(static_cast<size_t>(wanted));
}

}  // namespace bps
