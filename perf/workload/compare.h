// Compares results with expected values that were computed elsewhere in double precision.
#pragma once
#include <bps/bps.h>

#include <cstdint>
#include <span>
#include <string>

#include "perf/workload/model/safetensors.h"

namespace bps::perf {

// The largest allowed distance between a result x and the expected value e. x is a sum of `ranks`
// values whose magnitudes add up to m:
//
//   |x - e| <= roundings * unit * m + roundings * least + ranks * 2^-53 * m
//
// `roundings` is the number of ranks, plus one for the division of avg. `unit` is half a unit in
// the last place relative to the value (2^-24 for float). `least` is the type's smallest positive
// value. The bound covers the error of a sum that adds rank by rank. Each of the ranks - 1
// additions and the last rounding errs by at most one unit of the sum so far, which never exceeds
// m. The last term covers the error of the expected value. Integers are allowed only the last term,
// and for avg also 1, because integers truncate. NaN equals NaN, and an infinity equals itself.
struct Tolerance {
  bpsDataType_t type = bpsFloat32;
  bpsRedOp_t op = bpsSum;
  int ranks = 1;

  double allowed(double magnitude) const;
};

struct Deviation {
  uint64_t outOfTolerance = 0;  // elements whose error is larger than allowed
  double relative = 0;          // the largest |x - e| / m
  double shareOfAllowed = 0;    // the largest |x - e| relative to its allowed error
  std::string tensor;           // the tensor with the largest shareOfAllowed

  // Compares one tensor's elements. `magnitudes` holds the sums m, which are divided by the number
  // of ranks for avg. All three arrays have the same count.
  void add(const std::string& name, const Tolerance& tolerance, const void* result, std::span<const double> expected,
           std::span<const double> magnitudes);
};

}  // namespace bps::perf
