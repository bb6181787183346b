// reduce(): combines n sources on the CPU in one pass, in the order of the sources, with one
// rounding.
//
// Every kernel on every CPU gives the same result, bit for bit:
//   dst[i] = round(post(fold(pre(src_0[i]), pre(src_1[i]), ...)))
// The fold goes strictly left to right: (((s0 op s1) op s2) ...).
// - float16, bfloat16, float8e4m3 and float8e5m2 are widened to float, folded in float, and rounded
//   once at the end, to nearest even. float and double are folded in their own type, without fused
//   multiply-add. Integer results wrap around on overflow.
// - pre multiplies an element by the scalar of its source, if there are scalars. After that, pre
//   divides by the divisor of the source, if there are divisors. pre does not round to the
//   element's type. Integer products wrap around, and integer quotients truncate towards zero.
// - post divides by `divisor` (for ncclAvg) before the rounding. Integer quotients truncate towards
//   zero.
//
// element.h defines min, max, NaN and other special values. dst may be one of the sources. Every
// other source must not overlap dst. The buffers may have any alignment. The result of reduce()
// depends only on its arguments. Any thread may call these functions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace bps {

// The values equal those of ncclDataType_t.
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
std::string_view dataTypeName(DataType type);  // returns nccl-tests' name: int8, half, float, bfloat16, f8e4m3, ...
std::string_view foldOpName(FoldOp op);

// A scalar by which a source is multiplied. The low bytes hold it as an element of the buffer's
// type (little-endian).
using ScalarBits = uint64_t;

struct ReduceArgs {
  void* dst = nullptr;
  std::span<const void* const> sources = {};  // at least 1
  size_t count = 0;                           // elements
  DataType type = DataType::kFloat32;
  FoldOp op = FoldOp::kSum;
  std::span<const ScalarBits> scalars = {};  // empty, or one per source
  uint64_t divisor = 1;                      // divides the folded result; 1 means no division
  std::span<const uint64_t> divisors = {};   // empty, or one per source; 1 means no division
  int threads = 1;                           // largest number of OpenMP threads, used for large buffers
  bool rereadSoon = true;                    // if false, non-temporal stores write a large dst
};

void reduce(const ReduceArgs& args);

// Returns the name of the current target: "avx3", "avx2", "sse4", "sve", "neon" or "scalar".
std::string_view reduceTarget();

}  // namespace bps
