// Results held against expected values that were computed elsewhere, in double precision.
#pragma once
#include <bps/bps.h>

#include <cstdint>
#include <span>
#include <string>

#include "perf/workload/safetensors.h"

namespace bps::perf {

// How far a result x may lie from the expected value e, for a sum of `ranks` values with magnitudes of sum m:
//
//   |x - e| <= roundings * unit * m + roundings * least + ranks * 2^-53 * m
//
// with roundings = ranks (for avg, one more: the division), unit half a unit in the last place relative to the value
// (2^-24 for float), least the type's smallest positive value. That is what folding rank by rank may cost: each of the
// ranks - 1 additions and the last rounding is off by at most a unit of what has been summed so far, and that is never
// more than m. The last term is the expected value's own error, and is all that integers are allowed (for avg also 1,
// because they truncate). NaN agrees with NaN, an infinity with itself.
struct Tolerance {
  bpsDataType_t type = bpsFloat32;
  bpsRedOp_t op = bpsSum;
  int ranks = 1;

  double allowed(double magnitude) const;
};

struct Deviation {
  uint64_t outOfTolerance = 0;  // elements further off than allowed
  double relative = 0;          // the largest |x - e| / m
  double shareOfAllowed = 0;    // the largest |x - e| relative to what is allowed
  std::string tensor;           // where that is

  // Compares one tensor's elements. `magnitudes` are the sums m, for avg divided by ranks; all have the same count.
  void add(const std::string& name, const Tolerance& tolerance, const void* result, std::span<const double> expected,
           std::span<const double> magnitudes);
};

}  // namespace bps::perf
