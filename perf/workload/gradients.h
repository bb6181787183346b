// Generates values that look like gradients from (rank, tensor, element) alone, so that any rank can recompute any
// other rank's values. Reference computes the expected results.
#pragma once
#include <bps/bps.h>

#include <cstdint>
#include <span>

namespace bps::perf {

// The precision of a type. All fields are 0 for integers, which do not round.
struct Precision {
  double unit = 0;         // the largest relative error of one rounding to nearest: 2^-24 for float
  double accumulator = 0;  // the same of the type in which it is folded
  double least = 0;        // the smallest positive value
  double largest = 0;      // the largest finite value
};
Precision precisionOf(bpsDataType_t type);
inline bool isInteger(bpsDataType_t type) { return precisionOf(type).unit == 0; }

size_t bytesOf(bpsDataType_t type);
// Element `index` of an array at `base`.
double asDouble(bpsDataType_t type, const void* base, size_t index);

// Floating types: finite, in (-1, 1), of both signs and of magnitudes spread over eight powers of two. Integers: any
// value. `bytes` is a whole number of elements.
void fillGradients(bpsDataType_t type, int rank, uint64_t tensor, std::span<uint8_t> bytes);

struct Reference {
  bpsDataType_t type = bpsFloat32;
  bpsRedOp_t op = bpsSum;
  int ranks = 1;
  bool sharedMachines = false;  // some ranks share a machine

  // Counts the wrong elements of `result`, the all-reduced gradients of `tensor`. Tests about `samples` elements,
  // spread evenly, including the first and the last. The allowed error of a floating-point element against the result
  // in double precision is `ranks` roundings in the accumulator and one to the type. If ranks share machines, one more
  // rounding to the type is allowed. max and min must be equal. An integer must equal the wrapping computation.
  uint64_t countWrongElements(uint64_t tensor, std::span<const uint8_t> result, size_t samples) const;
  bool isCorrect(uint64_t tensor, const void* result, size_t index) const;
};

}  // namespace bps::perf
