// The time of each link is a linear function (a line) of x. J, the maximum of the times of all
// links, is therefore convex. The minimum of J is at an end of [0, 1], or where a falling line
// meets a rising line. The search starts with the highest line at each end, and tries the point
// where these two lines meet. If a third line is higher at that point, the third line replaces one
// of the two lines. A falling third line replaces the falling line, and any other third line
// replaces the rising line.
#include "tools/bps_topo/mixture.h"

#include <cmath>

namespace bps {
namespace {

constexpr double kEpsilon = 1e-12;

struct Lines {
  const std::vector<double>& at0;
  const std::vector<double>& at1;

  double value(size_t i, double x) const { return (1 - x) * at0[i] + x * at1[i]; }
  double slope(size_t i) const { return at1[i] - at0[i]; }

  // Returns the highest line at x. Among equally high lines, returns the line with the largest
  // slope if `rising` is true, and otherwise the line with the smallest slope.
  size_t highest(double x, bool rising) const {
    size_t best = 0;
    for (size_t i = 1; i < at0.size(); ++i) {
      const double more = value(i, x) - value(best, x);
      const bool equal = std::abs(more) <= kEpsilon * value(best, x);
      if (equal ? (rising ? slope(i) > slope(best) : slope(i) < slope(best)) : more > 0) best = i;
    }
    return best;
  }
};

// Returns the copies of brute force: every rank copies its entire buffer to host memory and back,
// and the CPU adds all buffers.
std::vector<Copy> bruteForceCopies(const LocalPlan& plan, uint64_t bytes, uint64_t unit) {
  LocalPlan alone = plan;
  alone.strategy = Strategy::kCpuAssisted;
  alone.placement.groups.clear();
  for (size_t rank = 0; rank < plan.placement.ranks.size(); ++rank) {
    const RankPlacement& place = plan.placement.ranks[rank];
    alone.placement.groups.push_back({place.location, place.numa, {rank}});
    alone.placement.groupOf[rank] = rank;
  }
  return copiesOf(alone, bytes, unit);
}

}  // namespace

Mixture minimizeSlowestLine(const std::vector<double>& at0, const std::vector<double>& at1) {
  if (at0.empty()) return {};
  const Lines lines{at0, at1};
  size_t falling = lines.highest(0, true), rising = lines.highest(1, false);
  if (lines.slope(falling) >= 0) return {0, lines.value(falling, 0)};
  if (lines.slope(rising) <= 0) return {1, lines.value(rising, 1)};
  double x = 0;
  for (size_t tries = 0; tries <= 2 * at0.size(); ++tries) {
    x = (at0[falling] - at0[rising]) / (lines.slope(rising) - lines.slope(falling));
    const size_t top = lines.highest(x, true);
    if (lines.value(top, x) <= lines.value(falling, x) * (1 + kEpsilon)) break;
    (lines.slope(top) < 0 ? falling : rising) = top;
  }
  return {x, lines.value(lines.highest(x, true), x)};
}

Mixture bestMixture(const Topology& topology, const LocalPlan& cpuAssisted, uint64_t bytes, uint64_t unit) {
  Traffic bruteForce(topology);
  for (const Copy& copy : bruteForceCopies(cpuAssisted, bytes, unit)) bruteForce.addCopy(topology, copy);
  return minimizeSlowestLine(linkSeconds(topology, predict(topology, cpuAssisted, bytes, unit)),
                             linkSeconds(topology, bruteForce));
}

}  // namespace bps
