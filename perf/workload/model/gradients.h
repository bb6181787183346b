// Generates values that look like gradients. A value depends on rank, tensor and element alone, so
// that any rank can recompute any other rank's values. Reference computes the expected results.
#pragma once
#include <bps/bps.h>

#include <cstdint>
#include <span>

namespace bps::perf {

// The precision of a type. All fields are 0 for integers, which do not round.
struct Precision {
  double unit = 0;         // the largest relative error of one rounding to nearest, 2^-24 for float
  double accumulator = 0;  // the same error of the type in which bps adds up
  double least = 0;        // the smallest positive value
  double largest = 0;      // the largest finite value
};
Precision precisionOf(bpsDataType_t type);
inline bool isInteger(bpsDataType_t type) { return precisionOf(type).unit == 0; }

size_t bytesOf(bpsDataType_t type);
// Returns element `index` of an array at `base`.
double asDouble(bpsDataType_t type, const void* base, size_t index);

// Floating-point values are finite and in (-1, 1), with both signs and with magnitudes spread over
// eight powers of two. Integers have any value. `bytes` holds a whole number of elements.
void fillGradients(bpsDataType_t type, int rank, uint64_t tensor, std::span<uint8_t> bytes);

struct Reference {
  bpsDataType_t type = bpsFloat32;
  bpsRedOp_t op = bpsSum;
  int ranks = 1;
  int moreRoundings = 0;  // one if ranks share machines, and one for each level of a BCube

  // Counts the wrong elements of `result`, the all-reduced gradients of `tensor`. Tests about
  // `samples` elements, spread evenly, including the first and the last. A floating-point element
  // may differ from the reference in double precision by `ranks` roundings in the accumulator and
  // one rounding to the type, and by `moreRoundings` to the type.
  // Results of max and min must equal the reference. An integer must equal the same computation
  // with wrapping.
  uint64_t countWrongElements(uint64_t tensor, std::span<const uint8_t> result, size_t samples) const;
  bool isCorrect(uint64_t tensor, const void* result, size_t index) const;
};

}  // namespace bps::perf
