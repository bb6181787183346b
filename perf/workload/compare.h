// Compares results with expected values that were computed elsewhere in double precision.
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
// roundings = ranks (for avg one more: the division). unit is half a unit in the last place relative to the value
// (2^-24 for float). least is the type's smallest positive value. This bounds the error of folding rank by rank: each
// of the ranks - 1 additions and the last rounding is off by at most a unit of the sum so far, which is never more than
// m. The last term is the error of the expected value itself. Integers are allowed only this term (for avg also 1,
// because they truncate). NaN equals NaN, and an infinity equals itself.
struct Tolerance {
  bpsDataType_t type = bpsFloat32;
  bpsRedOp_t op = bpsSum;
  int ranks = 1;

  double allowed(double magnitude) const;
};

struct Deviation {
  uint64_t outOfTolerance = 0;  // elements whose error is larger than allowed
  double relative = 0;          // the largest |x - e| / m
  double shareOfAllowed = 0;    // the largest |x - e| relative to what is allowed
  std::string tensor;           // where that is

  // Compares one tensor's elements. `magnitudes` are the sums m, for avg divided by ranks; all have the same count.
  void add(const std::string& name, const Tolerance& tolerance, const void* result, std::span<const double> expected,
           std::span<const double> magnitudes);
};

}  // namespace bps::perf
