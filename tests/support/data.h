// Buffers of any type with arbitrary bit patterns, and the expected results of an all-reduce.
#pragma once
#include <cstdint>
#include <vector>

#include "cpu_reduce/reduce.h"
#include "src/comm/communicator.h"

namespace bps::test {

// A sanitizer makes a program several times slower, so sanitized programs use fewer seeds and less data.
#ifdef BPS_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

using Bytes = std::vector<uint8_t>;

// Values of moderate size that differ for every rank and element and round when summed.
Bytes makeInput(DataType type, size_t count, uint64_t rank, uint64_t seed = 0);
ScalarBits makeScalar(DataType type, uint64_t rank);

// The same with values near the type's largest and the same sign on all ranks: their sums overflow and their averages
// do not. Some elements are NaNs, infinities and zeros.
Bytes makeLargeInput(DataType type, size_t count, uint64_t rank, uint64_t seed = 0);

// The contract of bps: each machine adds its ranks in order with one rounding, then the machines are added in order
// with one rounding. An average of floats is divided before the first rounding. Computed element by element.
struct Expectation {
  DataType type;
  CallOp op;
  size_t count;
  size_t ranks;
  size_t ranksPerMachine;
};
Bytes expected(const Expectation& what, const std::vector<Bytes>& inputs, const std::vector<ScalarBits>& scalars);

// An input of one pass: one rank's contribution (raw), or a sum of several that includes their scalars and the
// division.
struct Addend {
  const Bytes* bytes = nullptr;
  bool raw = true;
  ScalarBits scalar = 0;
};
// `all`: the addends contain the contributions of all ranks.
Bytes referenceSum(const Expectation& what, const std::vector<Addend>& addends, bool all);

// The order of summation: a rank, or parts whose sums are each rounded once.
struct SumTree {
  size_t rank = 0;
  std::vector<SumTree> parts;
};
// The same in another order; ignores ranksPerMachine.
Bytes expectedWithOrder(const Expectation& what, const SumTree& order, const std::vector<Bytes>& inputs,
                        const std::vector<ScalarBits>& scalars);

}  // namespace bps::test
