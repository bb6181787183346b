// Generates inputs whose reduction is known exactly, in whatever order ranks and machines are folded.
//
// At every index some of the n ranks are contributors, by position p = (rank + index + epoch) mod n < contributors(). A
// contributor's value depends on p and on g = 1 + (hash(index) + epoch) mod levels; the others give the operation's
// identity. All values are non-negative integers so small that every partial result, in any order and grouping, is
// exact in the type; integers may wrap, which is exact too. So the result depends on g alone. `epoch` is the number of
// the check. If levels > 1, the data that the previous check left behind is wrong in this check at every index. A
// missing rank is detected within n consecutive elements, a shift wherever g differs, which is nearly everywhere.
#pragma once
#include <bps/bps.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace bps::perf {

size_t typeBytes(bpsDataType_t type);
bool isFloat(bpsDataType_t type);
// The element nearest to value, ties to even. If it is too large for the type: infinity, or NaN if there is none.
uint64_t encode(bpsDataType_t type, double value);

// `op` is one of bps.h, or bpsNumOps for the pre-multiplied sum.
class Generator {
 public:
  Generator(bpsDataType_t type, bpsRedOp_t op, int ranks);

  void fill(void* buffer, size_t count, int rank, uint64_t epoch) const;
  // Counts the wrong elements of a result.
  uint64_t wrongElements(const void* result, size_t count, uint64_t epoch) const;
  // The scalar of this rank for the pre-multiplied sum: 1 or 2, as an element of the type.
  uint64_t premulScalar(int rank) const;

 private:
  size_t level(size_t index, uint64_t epoch) const;
  size_t kindOf(int position) const;
  int64_t value(int position, size_t level) const;
  uint64_t expected(size_t level) const;
  uint64_t encoded(int64_t value) const;
  void chooseLimits();

  bpsDataType_t type_;
  bpsRedOp_t op_;
  int ranks_;
  int contributors_ = 1;  // positions below it give a value, others the identity
  int weights_ = 2;       // values of neighbouring positions differ by p mod weights
  size_t levels_ = 3;
  int64_t scale_ = 1;
};

}  // namespace bps::perf
