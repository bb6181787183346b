// n-source summation on the CPU: one pass, rank order, one rounding.
//
// Contract, the same for every kernel and CPU, bit for bit: dst[i] = round(post(fold(pre(src_0[i]), pre(src_1[i]),
// ...))) folded strictly left to right (((s0 op s1) op s2) ...), where
//  - float16, bfloat16, float8e4m3 and float8e5m2 are widened to float, folded in float, and rounded once at the end,
//    to nearest even; float and double fold in their own type without fused multiply-add; integers wrap;
//  - pre multiplies by that source's scalar where scalars are given, and divides by that source's divisor where
//  divisors
//    are (before any rounding; integers wrap, and truncate towards zero);
//  - post divides by `divisor` (ncclAvg), before the rounding; integers truncate towards zero.
// min/max, NaN and special values: see element.h. dst may be the same memory as one of the sources, else none overlaps
// it. Any alignment. Pure functions of their arguments; any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace bps {

// Values are NCCL's.
enum class DataType : uint8_t {
  kInt8 = 0,
  kUint8 = 1,
  kInt32 = 2,
  kUint32 = 3,
  kInt64 = 4,
  kUint64 = 5,
  kFloat16 = 6,
  kFloat32 = 7,
  kFloat64 = 8,
  kBfloat16 = 9,
  kFloat8e4m3 = 10,
  kFloat8e5m2 = 11,
};
inline constexpr int kDataTypes = 12;
enum class FoldOp : uint8_t { kSum = 0, kProd = 1, kMax = 2, kMin = 3 };

inline constexpr uint8_t kElementBytes[kDataTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
constexpr size_t elementBytes(DataType type) { return kElementBytes[static_cast<size_t>(type)]; }
std::string_view dataTypeName(DataType type);  // nccl-tests' names: int8, half, float, bfloat16, f8e4m3, ...
std::string_view foldOpName(FoldOp op);

// One element of the buffer's type, in the low bytes (little endian): a pre-multiply scalar.
using ScalarBits = uint64_t;

struct ReduceArgs {
  void* dst = nullptr;
  std::span<const void* const> sources = {};  // at least 1
  size_t count = 0;                           // elements
  DataType type = DataType::kFloat32;
  FoldOp op = FoldOp::kSum;
  std::span<const ScalarBits> scalars = {};  // empty, or one per source
  uint64_t divisor = 1;                      // of the folded sources; 1: none
  std::span<const uint64_t> divisors = {};   // empty, or one per source; 1: none
  int threads = 1;                           // OpenMP threads for large buffers; never a process-wide default
  bool rereadSoon = true;                    // false: dst is large and not read again soon, stream past the cache
};

void reduce(const ReduceArgs& args);

// The kernels that were chosen for this CPU: "avx3", "avx2", "sse4", "neon", "scalar".
std::string_view reduceTarget();

}  // namespace bps
