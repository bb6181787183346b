// float8 and, without conversion instructions, float16: integer arithmetic on 32-bit lanes, one element per lane.
// Included once per target; see simd.h. The scalar original is SmallFloat in element.h.
#if defined(BPS_CPU_REDUCE_SMALL_FLOAT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BPS_CPU_REDUCE_SMALL_FLOAT_INL_H_
#undef BPS_CPU_REDUCE_SMALL_FLOAT_INL_H_
#else
#define BPS_CPU_REDUCE_SMALL_FLOAT_INL_H_
#endif

#include "cpu_reduce/simd-inl.h"

#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace bps::cpu::HWY_NAMESPACE {
namespace {

// kLargest: the float at which magnitudes are capped before rounding, either the largest finite value (saturation) or
// the power of two above it, whose code is infinity's.
template <int kExponent, int kMantissa, int32_t kLargest, uint32_t kNanCode>
struct SmallFormat {
  static constexpr int kBits = 1 + kExponent + kMantissa;
  static constexpr int kRoom = 8 - kExponent;
  static constexpr uint32_t kBias = (1U << (kExponent - 1)) - 1;
  static constexpr int kShift = 23 - kMantissa;
  static constexpr int32_t kMost = kLargest;
  static constexpr uint32_t kNan = kNanCode;
};

using DFloat = hn::ScalableTag<float>;
using DBits = hn::RebindToUnsigned<DFloat>;
using VFloat = hn::Vec<DFloat>;
using VBits = hn::Vec<DBits>;

// The element in the highest bits of each lane, as if its exponents had no special meaning: an arithmetic shift makes
// room for the wider exponent, a multiplication moves the bias and makes denormals normal.
template <class Format>
HWY_INLINE VFloat widenFinite(VBits word) {
  const DFloat d;
  const DBits du;
  const hn::RebindToSigned<DFloat> di;
  constexpr uint32_t kMask = 0x80000000U | (((1U << (Format::kBits - 1)) - 1) << Format::kShift);
  const auto moved = hn::BitCast(du, hn::ShiftRight<Format::kRoom>(hn::BitCast(di, word)));
  const auto scale = hn::BitCast(d, hn::Set(du, (254U - Format::kBias) << 23));
  return hn::Mul(hn::BitCast(d, hn::And(moved, hn::Set(du, kMask))), scale);
}

// The same for formats with infinities: what lies at or above 2^(bias+1) gets float's highest exponent.
template <class Format>
HWY_INLINE VFloat widenIeee(VBits word) {
  const DFloat d;
  const DBits du;
  const auto value = widenFinite<Format>(word);
  const auto limit = hn::BitCast(d, hn::Set(du, (128U + Format::kBias) << 23));
  const auto special = hn::BitCast(d, hn::Set(du, 0x7f800000U));
  return hn::IfThenElse(hn::Ge(hn::Abs(value), limit), hn::Or(value, special), value);
}

// To the format's code in the lowest bits of each lane.
template <class Format>
HWY_INLINE VBits roundSmall(VFloat value) {
  const DFloat d;
  const DBits du;
  const hn::RebindToSigned<DFloat> di;  // magnitudes compare alike as signed numbers, which is cheaper
  constexpr int32_t kBias = static_cast<int32_t>(Format::kBias);
  constexpr int32_t kHalf = (1 << (Format::kShift - 1)) - 1;
  const auto magnitude = hn::Min(hn::BitCast(di, hn::Abs(value)), hn::Set(di, Format::kMost));
  const auto odd = hn::And(hn::ShiftRight<Format::kShift>(magnitude), hn::Set(di, 1));
  const auto carry = hn::Add(hn::Add(magnitude, hn::Set(di, kHalf - ((127 - kBias) << 23))), odd);
  const auto magic = hn::Set(di, (128 - kBias + Format::kShift) << 23);  // its last bit is the least denormal
  const auto tiny = hn::Sub(hn::BitCast(di, hn::Add(hn::BitCast(d, magnitude), hn::BitCast(d, magic))), magic);
  const auto isTiny = hn::Lt(magnitude, hn::Set(di, (128 - kBias) << 23));
  const auto code = hn::BitCast(du, hn::IfThenElse(isTiny, tiny, hn::ShiftRight<Format::kShift>(carry)));
  const auto sign =
      hn::And(hn::ShiftRight<32 - Format::kBits>(hn::BitCast(du, value)), hn::Set(du, 1U << (Format::kBits - 1)));
  return hn::IfThenElse(hn::RebindMask(du, hn::IsNaN(value)), hn::Set(du, Format::kNan), hn::Or(code, sign));
}

}  // namespace
}  // namespace bps::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // a SIMD target

#endif  // per-target include guard
