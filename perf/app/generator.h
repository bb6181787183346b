// Generates inputs whose reduction is known exactly, in whatever order the ranks' values are
// combined.
//
// At every index, a rank has the position p = (rank + index + epoch) mod n, where n is the number
// of ranks. `epoch` is the number of the check. If p is below contributors_, the rank contributes a
// value; otherwise it gives the operation's identity. A contributed value depends on p and on the
// level g = 1 + (hash(index) + epoch) mod levels_. All values are non-negative integers. They are
// so small that every partial result, in any order and grouping, is exact in the type. Integer
// types may wrap, which is exact too. The result therefore depends on g alone. If there is more
// than one level, the data that the previous check left behind is wrong in this check at every
// index. A missing rank is detected within n consecutive elements. Shifted data is detected
// wherever g differs, which is nearly everywhere.
#pragma once
#include <bps/bps.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace bps::perf {

size_t typeBytes(bpsDataType_t type);
bool isFloat(bpsDataType_t type);
// Returns the bits of the element nearest to `value`, ties to even. If `value` is too large for the
// type, returns infinity, or NaN if the type has no infinity.
uint64_t encode(bpsDataType_t type, double value);

// `op` is an operation of bps.h, or bpsNumOps for the pre-multiplied sum.
class Generator {
 public:
  Generator(bpsDataType_t type, bpsRedOp_t op, int ranks);

  void fill(void* buffer, size_t count, int rank, uint64_t epoch) const;
  // Counts the wrong elements of a result.
  uint64_t wrongElements(const void* result, size_t count, uint64_t epoch) const;
  // Returns the scalar of `rank` for the pre-multiplied sum, which is 1 or 2, encoded in the type.
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
  int contributors_ = 1;  // positions below this number give a value, the others the identity
  int weights_ = 2;       // position p has the weight p mod weights_, which is added to its level
  size_t levels_ = 3;
  int64_t scale_ = 1;
};

}  // namespace bps::perf
