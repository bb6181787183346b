// Defines how one element of each data type is widened, combined and rounded. The functions here
// implement the arithmetic of the contract in reduce.h. The scalar kernels call these functions
// directly. Every SIMD kernel must give the same result bit for bit.
//
// Special values:
// - If a result is a NaN, it is the canonical NaN of its type, which is positive. The payloads and
//   the order of the operands do not matter.
// - max and min are maximumNumber and minimumNumber of IEEE 754-2019, as in CUDA's fmaxf() and in
//   NCCL. If one operand is a NaN, the result is the other operand. For max and min, -0 is less
//   than +0. max and min are commutative and associative.
// - If the magnitude of a float8 result exceeds the largest finite value, the result becomes the
//   largest finite value with the same sign. An infinite result also becomes the largest finite
//   value. A NaN stays a NaN. CUDA's saturating conversion, which NCCL's float8 types use, follows
//   the same rules.
// - float16 and bfloat16 results overflow to infinity.
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cpu_reduce/reduce.h"

namespace bps::cpu {

// An IEEE-like floating-point format. It has a sign bit, then kExponent exponent bits, then
// kMantissa mantissa bits.
template <class BitsT, int kExponent, int kMantissa, bool kSaturate, uint32_t kMaxCode, uint32_t kNanCode>
struct SmallFloat {
  using Bits = BitsT;
  using Acc = float;
  static constexpr int kBias = (1 << (kExponent - 1)) - 1;
  static constexpr int kShift = 23 - kMantissa;
  static constexpr uint32_t kSign = 1U << (kExponent + kMantissa);
  static constexpr uint32_t kInfinity = ((1U << kExponent) - 1) << kMantissa;
  static constexpr bool kHasInfinity = kMaxCode < kInfinity;
  static constexpr uint32_t kNan = kNanCode;

  static float widen(Bits bits) {
    uint32_t magnitude = bits & (kSign - 1);
    uint32_t sign = (bits & kSign) != 0 ? 0x80000000U : 0;
    if (magnitude > (kHasInfinity ? kInfinity : kMaxCode)) return std::bit_cast<float>(0x7fc00000U);
    if (kHasInfinity && magnitude == kInfinity) return std::bit_cast<float>(0x7f800000U | sign);
    if (magnitude >> kMantissa == 0) {  // zero or denormal, hence a multiple of the smallest denormal
      float value = static_cast<float>(magnitude) * std::bit_cast<float>((128U - kBias - kMantissa) << 23);
      return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | sign);
    }
    return std::bit_cast<float>(((magnitude << kShift) + ((127U - kBias) << 23)) | sign);
  }

  static Bits round(float value) {
    uint32_t bits = std::bit_cast<uint32_t>(value);
    uint32_t sign = bits >> 31 != 0 ? kSign : 0;
    uint32_t magnitude = bits & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return static_cast<Bits>(kNan);
    uint32_t code = 0;
    if (magnitude < (128U - kBias) << 23) {
      // The value is below the least normal number. Adding `magic` rounds the value to a multiple
      // of the smallest denormal.
      float magic = std::bit_cast<float>((128U - kBias + kShift) << 23);
      code = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + magic) - std::bit_cast<uint32_t>(magic);
    } else {
      uint32_t odd = (magnitude >> kShift) & 1;
      code = ((magnitude + (1U << (kShift - 1)) - 1 + odd) >> kShift) - ((127U - kBias) << kMantissa);
    }
    if (code > kMaxCode) code = kSaturate ? kMaxCode : kInfinity;
    return static_cast<Bits>(code | sign);
  }
};

using Float16 = SmallFloat<uint16_t, 5, 10, false, 0x7bff, 0x7e00>;
using Float8e4m3 = SmallFloat<uint8_t, 4, 3, true, 0x7e, 0x7f>;
using Float8e5m2 = SmallFloat<uint8_t, 5, 2, true, 0x7b, 0x7f>;

struct Bfloat16 {
  using Bits = uint16_t;
  using Acc = float;
  static float widen(Bits bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  static Bits round(float value) {
    uint32_t bits = std::bit_cast<uint32_t>(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return 0x7fc0;
    return static_cast<Bits>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
};

template <class BitsT, class FloatT, BitsT kNanBits>
struct PlainFloat {
  using Bits = BitsT;
  using Acc = FloatT;
  static Acc widen(Bits bits) { return std::bit_cast<Acc>(bits); }
  static Bits round(Acc value) { return value != value ? kNanBits : std::bit_cast<Bits>(value); }
};
using Float32 = PlainFloat<uint32_t, float, 0x7fc00000U>;
using Float64 = PlainFloat<uint64_t, double, 0x7ff8000000000000U>;

template <class T>
struct Integer {
  using Bits = std::make_unsigned_t<T>;
  using Acc = T;
  static Acc widen(Bits bits) { return static_cast<Acc>(bits); }
  static Bits round(Acc value) { return static_cast<Bits>(value); }
};

template <class Acc>
constexpr bool kIsFloat = std::is_floating_point_v<Acc>;

template <class Acc>
Acc multiply(Acc a, Acc b) {
  if constexpr (kIsFloat<Acc>) return a * b;
  else return static_cast<Acc>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

template <class Acc>
Acc add(Acc a, Acc b) {
  if constexpr (kIsFloat<Acc>) return a + b;
  else return static_cast<Acc>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

// Returns max or min of two operands that compare equal. Only +0 and -0 compare equal with
// different bits. For these two zeros, max returns +0 and min returns -0.
template <FoldOp kOp, class Acc>
Acc equalOperands(Acc a, Acc b) {
  if constexpr (kIsFloat<Acc>) {
    using Bits = std::conditional_t<sizeof(Acc) == 4, uint32_t, uint64_t>;
    Bits x = std::bit_cast<Bits>(a);
    Bits y = std::bit_cast<Bits>(b);
    return std::bit_cast<Acc>(kOp == FoldOp::kMax ? x & y : x | y);
  } else {
    return b;
  }
}

template <FoldOp kOp, class Acc>
Acc combine(Acc a, Acc b) {
  if constexpr (kOp == FoldOp::kSum) return add(a, b);
  if constexpr (kOp == FoldOp::kProd) return multiply(a, b);
  if (a == b) return equalOperands<kOp>(a, b);
  bool first = kOp == FoldOp::kMax ? a > b : a < b;
  return first || b != b ? a : b;
}

// Divides a value by `divisor`. Integer quotients truncate towards zero.
template <class Acc>
Acc divide(Acc value, uint64_t divisor) {
  if constexpr (kIsFloat<Acc>) {
    return value / static_cast<Acc>(divisor);
  } else if constexpr (std::is_signed_v<Acc>) {
    uint64_t wide = static_cast<uint64_t>(static_cast<int64_t>(value));
    uint64_t quotient = (value < 0 ? 0 - wide : wide) / divisor;
    return static_cast<Acc>(value < 0 ? 0 - quotient : quotient);
  } else {
    return static_cast<Acc>(value / divisor);
  }
}

template <class Bits>
Bits loadBits(const void* base, size_t index) {
  Bits bits;
  std::memcpy(&bits, static_cast<const char*>(base) + index * sizeof(Bits), sizeof(Bits));
  return bits;
}

template <class Bits>
void storeBits(void* base, size_t index, Bits bits) {
  std::memcpy(static_cast<char*>(base) + index * sizeof(Bits), &bits, sizeof(Bits));
}

}  // namespace bps::cpu
