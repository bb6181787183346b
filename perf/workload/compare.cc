#include "perf/workload/compare.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "perf/workload/model/gradients.h"

namespace bps::perf {

double Tolerance::allowed(double magnitude) const {
  const double own = ranks * 0x1p-53 * magnitude;
  if (isInteger(type)) return own + (op == bpsAvg ? 1 : 0);
  const Precision precision = precisionOf(type);
  const int roundings = ranks + (op == bpsAvg ? 1 : 0);
  return roundings * (precision.unit * magnitude + precision.least) + own;
}

void Deviation::add(const std::string& name, const Tolerance& tolerance, const void* result,
                    std::span<const double> expected, std::span<const double> magnitudes) {
  for (size_t i = 0; i < expected.size(); ++i) {
    const double value = asDouble(tolerance.type, result, i);
    if (value == expected[i] || (std::isnan(value) && std::isnan(expected[i]))) continue;
    const double error = std::abs(value - expected[i]);
    const double allowed = tolerance.allowed(magnitudes[i]);
    const bool within = std::isfinite(error) && error <= allowed;
    const double share = within ? error / allowed : std::max(error / allowed, 1.0);
    if (!within) ++outOfTolerance;
    const bool comparable = std::isfinite(error) && magnitudes[i] > 0;
    relative = std::max(relative, comparable ? error / magnitudes[i] : std::numeric_limits<double>::infinity());
    if (share <= shareOfAllowed) continue;
    shareOfAllowed = share;
    tensor = name;
  }
}

}  // namespace bps::perf
