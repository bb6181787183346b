// Makes buffers of any type with arbitrary bit patterns, and computes the expected results of an
// all-reduce.
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

// Makes values of moderate size that differ for every rank and element. Sums of these values are
// rounded.
Bytes makeInput(DataType type, size_t count, uint64_t rank, uint64_t seed = 0);
ScalarBits makeScalar(DataType type, uint64_t rank);

// Like makeInput(), but most values are near the type's largest value, and an element has the same
// sign on all ranks. The sums of these values overflow, but their averages do not. The other
// elements are NaNs, infinities, zeros and similar values.
Bytes makeLargeInput(DataType type, size_t count, uint64_t rank, uint64_t seed = 0);

// A call whose result the test computes as bps promises it. Each machine adds its ranks in order and rounds once. Then
// the sums of the machines are added in order and rounded once. An average of floats is divided before the first
// rounding. expected() computes this result element by element.
struct Expectation {
  DataType type;
  CallOp op;
  size_t count;
  size_t ranks;
  size_t ranksPerMachine;
};
Bytes expected(const Expectation& what, const std::vector<Bytes>& inputs, const std::vector<ScalarBits>& scalars);

// One input of a summation. It is either one rank's contribution (raw), or a sum of several
// contributions that already includes their scalars and the division for an average.
struct Addend {
  const Bytes* bytes = nullptr;
  bool raw = true;
  ScalarBits scalar = 0;
};
// `all` is true if the addends contain the contributions of all ranks.
Bytes referenceSum(const Expectation& what, const std::vector<Addend>& addends, bool all);

// An order of summation: either one rank, or a list of parts whose sum is rounded once.
struct SumTree {
  size_t rank = 0;
  std::vector<SumTree> parts;
};
// Like expected(), but adds in the given order and ignores ranksPerMachine.
Bytes expectedWithOrder(const Expectation& what, const SumTree& order, const std::vector<Bytes>& inputs,
                        const std::vector<ScalarBits>& scalars);

}  // namespace bps::test
