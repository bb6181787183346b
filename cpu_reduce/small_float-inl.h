// Converts float8, and float16 on CPUs without conversion instructions. The functions work on
// 32-bit SIMD lanes with one element per lane. SmallFloat in element.h is the scalar reference.
// This header is included once per CPU target; see simd.h.
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

// The parameters of a small format. kLargest is the float at which magnitudes are capped before
// rounding. If the format saturates, kLargest is its largest finite value. Otherwise kLargest is
// the power of two above the largest finite value, and the bits of kLargest are those of infinity.
// kNan is the float that would have the bits of NaN if no exponent had a special meaning. The
// floats of a format are 2^-kScaleExponent times the elements. If a fold permits scaled floats, the
// scale saves a multiplication per source. A scale by a power of two changes no rounding.
template <int kExponent, int kMantissa, int32_t kLargest, int32_t kNan, int32_t kScaleExponent = 0>
struct SmallFormat {
  static constexpr int kBits = 1 + kExponent + kMantissa;
  static constexpr int kExtraExponentBits = 8 - kExponent;
  static constexpr int kShift = 23 - kMantissa;
  static constexpr int32_t kBias = (1 << (kExponent - 1)) - 1 + kScaleExponent;
  static constexpr int32_t kMaxFloat = kLargest - (kScaleExponent << 23);
  static constexpr int32_t kNanFloat = kNan - (kScaleExponent << 23);
};

using DFloat = hn::ScalableTag<float>;
using DBits = hn::RebindToUnsigned<DFloat>;
using VFloat = hn::Vec<DFloat>;
using VBits = hn::Vec<DBits>;

// Widens the element in the highest bits of each SIMD lane, as if no exponent had a special
// meaning. An arithmetic shift makes room for the wider exponent. A multiplication then adjusts the
// exponent bias and normalizes denormals.
template <class Format>
HWY_INLINE VFloat widenFinite(VBits word) {
  const DFloat d;
  const DBits du;
  const hn::RebindToSigned<DFloat> di;
  constexpr uint32_t kMask = 0x80000000U | (((1U << (Format::kBits - 1)) - 1) << Format::kShift);
  const auto moved = hn::BitCast(du, hn::ShiftRight<Format::kExtraExponentBits>(hn::BitCast(di, word)));
  const auto scale = hn::BitCast(d, hn::Set(di, (254 - Format::kBias) << 23));
  return hn::Mul(hn::BitCast(d, hn::And(moved, hn::Set(du, kMask))), scale);
}

// Widens elements of formats with infinities. A value of at least 2^(bias+1) is an infinity or a
// NaN, and gets the highest exponent of a float.
template <class Format>
HWY_INLINE VFloat widenIeee(VBits word) {
  const DFloat d;
  const DBits du;
  const hn::RebindToSigned<DFloat> di;
  const auto value = widenFinite<Format>(word);
  const auto limit = hn::BitCast(d, hn::Set(di, (128 + Format::kBias) << 23));
  const auto special = hn::BitCast(d, hn::Set(du, 0x7f800000U));
  return hn::IfThenElse(hn::Ge(hn::Abs(value), limit), hn::Or(value, special), value);
}

// Caps magnitudes at kMaxFloat and replaces a NaN by kNanFloat. Large magnitudes and NaNs are rare,
// so capGroup() first tests the whole group.
template <class Format>
HWY_INLINE VFloat capMagnitude(VFloat value) {
  const DFloat d;
  const auto most = hn::BitCast(d, hn::Set(hn::RebindToSigned<DFloat>(), Format::kMaxFloat));
  const auto nan = hn::BitCast(d, hn::Set(hn::RebindToSigned<DFloat>(), Format::kNanFloat));
  const auto magnitude = hn::Abs(value);
  const auto less = hn::IfThenElse(hn::Gt(magnitude, most), hn::CopySign(most, value), value);
  return hn::IfThenElse(isNaN(value), nan, less);
}

template <class Format>
HWY_INLINE void capGroup(VFloat& a0, VFloat& a1, VFloat& a2, VFloat& a3) {
  const hn::RebindToSigned<DFloat> di;  // compares magnitudes, including NaN, as integers
  const auto m01 = hn::Max(hn::BitCast(di, hn::Abs(a0)), hn::BitCast(di, hn::Abs(a1)));
  const auto m23 = hn::Max(hn::BitCast(di, hn::Abs(a2)), hn::BitCast(di, hn::Abs(a3)));
  if (HWY_LIKELY(hn::AllFalse(di, hn::Gt(hn::Max(m01, m23), hn::Set(di, Format::kMaxFloat))))) return;
  a0 = capMagnitude<Format>(a0), a1 = capMagnitude<Format>(a1), a2 = capMagnitude<Format>(a2),
  a3 = capMagnitude<Format>(a3);
}

// Converts capped float values to the small format. The bits of each result are the lowest bits of
// its 32-bit SIMD lane, and the other bits of the lane are zero. Let E be the larger of two
// exponents: the exponent of the value and that of the format's smallest normal number. Adding
// 2^(E + kShift) to the value rounds the value to the precision of the format. The lowest bits of
// the sum are then the mantissa, including its implicit leading bit. The function adds E - 1 above
// the mantissa, because the implicit bit, if it is set, adds 1 to the exponent.
template <class Format>
HWY_INLINE VBits roundSmall(VFloat value) {
  const DFloat d;
  const DBits du;
  const hn::RebindToSigned<DFloat> di;
  constexpr int32_t kLeast = 128 - Format::kBias;
  const auto bits = hn::BitCast(di, value);
  const auto exponent = hn::Max(hn::And(bits, hn::Set(di, 0x7f800000)), hn::Set(di, kLeast << 23));
  const auto power = hn::Set(d, static_cast<float>(1 << Format::kShift));
  const auto sum = hn::BitCast(di, hn::MulAdd(hn::BitCast(d, exponent), power, hn::Abs(value)));
  const auto places = hn::Add(hn::Sub(sum, exponent), hn::ShiftRight<Format::kShift>(exponent));
  const auto code = hn::Sub(places, hn::Set(di, (Format::kShift << 23) + (kLeast << (23 - Format::kShift))));
  const auto sign =
      hn::And(hn::ShiftRight<32 - Format::kBits>(hn::BitCast(du, value)), hn::Set(du, 1U << (Format::kBits - 1)));
  return hn::Or(hn::BitCast(du, code), sign);
}

}  // namespace
}  // namespace bps::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // a SIMD target

#endif  // per-target include guard
