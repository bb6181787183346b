// Buffers of any type with arbitrary bit patterns, and what an all-reduce must make of them.
#pragma once
#include <cstdint>
#include <vector>

#include "cpu_reduce/reduce.h"
#include "src/comm/communicator.h"

namespace bps::test {

// A sanitizer makes a program several times slower: there, fewer seeds and less data for what is repeated. The plain
// program has all of it.
#ifdef BPS_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

using Bytes = std::vector<uint8_t>;

// Values of moderate size that are different for every rank and element, and round when summed.
Bytes makeInput(DataType type, size_t count, uint64_t rank, uint64_t seed = 0);
ScalarBits makeScalar(DataType type, uint64_t rank);

// The same with values near the type's largest, of one sign on all ranks, whose sums overflow and whose averages do
// not; some elements with NaNs, infinities and zeros.
Bytes makeLargeInput(DataType type, size_t count, uint64_t rank, uint64_t seed = 0);

// What bps promises: within each machine in rank order with one rounding, then machines in order with one rounding; an
// average of floats is divided before the first rounding. Straight from that, element by element.
struct Expectation {
  DataType type;
  CallOp op;
  size_t count;
  size_t ranks;
  size_t ranksPerMachine;
};
Bytes expected(const Expectation& what, const std::vector<Bytes>& inputs, const std::vector<ScalarBits>& scalars);

// What is added in one pass: a rank's own contribution, or a sum of several, with its scalars and the division in it.
struct Addend {
  const Bytes* bytes = nullptr;
  bool raw = true;
  ScalarBits scalar = 0;
};
// all: the contributions of all ranks are in it now.
Bytes referenceSum(const Expectation& what, const std::vector<Addend>& addends, bool all);

// Who is added up with whom: a rank, or parts that are each rounded once.
struct SumTree {
  size_t rank = 0;
  std::vector<SumTree> parts;
};
// The same in another order; ranksPerMachine says nothing.
Bytes expectedWithOrder(const Expectation& what, const SumTree& order, const std::vector<Bytes>& inputs,
                        const std::vector<ScalarBits>& scalars);

}  // namespace bps::test
