// Reduces n sources on the CPU in one pass, in rank order, with one rounding.
//
// Contract, the same for every kernel and CPU, bit for bit:
//   dst[i] = round(post(fold(pre(src_0[i]), pre(src_1[i]), ...)))
// The fold goes strictly left to right: (((s0 op s1) op s2) ...).
//  - float16, bfloat16, float8e4m3 and float8e5m2 are widened to float, folded in float, and rounded once at the end,
//    to nearest even. float and double fold in their own type without fused multiply-add. Integers wrap.
//  - pre multiplies by the source's scalar, if there are scalars, and divides by the source's divisor, if there are
//    divisors, before any rounding. Integer products wrap and integer quotients truncate towards zero.
//  - post divides by `divisor` (ncclAvg) before the rounding. Integers truncate towards zero.
// element.h defines min, max, NaN and special values. dst may be the same memory as one of the sources; otherwise no
// source may overlap it. Any alignment. Pure functions of their arguments; any thread may call them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace bps {

// The values are those of ncclDataType_t.
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
  uint64_t divisor = 1;                      // divides the folded result; 1: none
  std::span<const uint64_t> divisors = {};   // empty, or one per source; 1: none
  int threads = 1;                           // most OpenMP threads to use for large buffers
  bool rereadSoon = true;                    // false: dst is not read again soon, so use non-temporal stores if large
};

void reduce(const ReduceArgs& args);

// The current target: "avx3", "avx2", "sse4", "sve", "neon" or "scalar".
std::string_view reduceTarget();

}  // namespace bps
