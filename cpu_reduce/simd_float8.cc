// The SIMD kernels for float8e4m3 and float8e5m2.
//
// A plain sum needs no conversion to float. If the bits of a float8 are shifted to the exponent and
// mantissa of a float, the result is the element times a power of two. A denormal float8 becomes a
// denormal float. Denormal floats have enough places for sums of shifted elements, so these sums
// round like sums of the elements. The kernel rounds the sum to the places of a float8 and shifts
// it back.
//
// The shift turns infinities and NaNs into ordinary numbers. Infinities and NaNs are rare, so the
// kernel tests the sources for them and folds their groups with the general kernel. The general
// kernel converts to float, because products and quotients need low-order bits that a shifted
// float8 lacks.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu_reduce/simd_float8.cc"
#include "cpu_reduce/highway.h"
#include "cpu_reduce/small_float-inl.h"

#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace bps::cpu::HWY_NAMESPACE {
namespace {

// Returns the bits of `yes` where `mask` has ones, and the bits of `no` where `mask` has zeros.
// Only AVX-512 has an instruction for this selection. On other targets, Highway selects only whole
// lanes.
template <class V>
HWY_INLINE V selected(V mask, V yes, V no) {
#if HWY_TARGET == HWY_AVX3
  return hn::IfVecThenElse(mask, yes, no);
#else
  return hn::Or(hn::And(mask, yes), hn::AndNot(mask, no));
#endif
}

// Implements the Sum of an Element; see sumGroup() in simd-inl.h. kMaxCode is the largest finite
// magnitude. Codes above kOrdinary are infinities or NaNs. a0 to a3 hold the bytes 0 to 3 of each
// 32-bit SIMD lane.
template <int kMantissa, uint8_t kMaxCode, int8_t kOrdinary>
struct Float8Sum {
  using V = VFloat;
  using D8 = hn::Repartition<uint8_t, DFloat>;
  using D16 = hn::Repartition<uint16_t, DFloat>;
  using V8 = hn::Vec<D8>;
  using V16 = hn::Vec<D16>;
  static constexpr int kExtraExponentBits = 1 + kMantissa;  // number of exponent bits that a float8 lacks
  static constexpr int kShift = 23 - kMantissa;

  static HWY_INLINE V8 none() { return hn::Zero(D8()); }

  static HWY_INLINE void load(const uint8_t* from, V& a0, V& a1, V& a2, V& a3, V8& most) {
    const D8 d8;
    const DBits du;
    const hn::RebindToSigned<D16> di16;
    const DFloat d;
    const V8 bytes = hn::LoadU(d8, from);
    most = hn::Max(most, hn::And(bytes, hn::Set(d8, uint8_t{0x7f})));
    const auto word = hn::BitCast(di16, bytes);
    const VBits even = hn::BitCast(du, hn::ShiftRight<kExtraExponentBits>(hn::ShiftLeft<8>(word)));
    const VBits odd = hn::BitCast(du, hn::ShiftRight<kExtraExponentBits>(word));
    const VBits mask = hn::Set(du, 0x80000000U | (0x7fU << kShift));
    a0 = hn::BitCast(d, hn::And(hn::ShiftLeft<16>(even), mask)),
    a1 = hn::BitCast(d, hn::And(hn::ShiftLeft<16>(odd), mask));
    a2 = hn::BitCast(d, hn::And(even, mask)), a3 = hn::BitCast(d, hn::And(odd, mask));
  }

  static HWY_INLINE bool special(V8 most) {
    const hn::RebindToSigned<D8> d8;
    return !hn::AllFalse(d8, hn::Gt(hn::BitCast(d8, most), hn::Set(d8, kOrdinary)));
  }

  static HWY_INLINE VBits roundToCode(V value) {
    const DBits du;
    const VBits bits = hn::BitCast(du, value);
    const VBits odd = hn::And(hn::ShiftRight<kShift>(bits), hn::Set(du, 1U));
    return hn::Add(hn::Add(bits, hn::Set(du, (1U << (kShift - 1)) - 1)), odd);
  }

  // Puts the upper half of each lane of `a` below the upper half of the same lane of `b`.
  static HWY_INLINE V16 upper(VBits a, VBits b) {
    const D16 d16;
    const DBits du;
    return hn::BitCast(d16, hn::Or(hn::ShiftRight<16>(a), hn::And(b, hn::Set(du, 0xffff0000U))));
  }

  // If rounding overflows a code, the bit above the code is set. hn::Min() then replaces the code
  // by kMaxCode.
  static HWY_INLINE void store(uint8_t* to, bool stream, V a0, V a1, V a2, V a3) {
    const D16 d16;
    const D8 d8;
    const V16 even = upper(roundToCode(a0), roundToCode(a2));
    const V16 odd = upper(roundToCode(a1), roundToCode(a3));
    const V16 low = hn::Set(d16, uint16_t{0x00ff});
    const V16 codes = selected(low, hn::ShiftRight<kShift - 16>(even), hn::ShiftLeft<24 - kShift>(odd));
    const V8 capMagnitude = hn::Min(hn::BitCast(d8, codes), hn::Set(d8, kMaxCode));
    const V8 signs = hn::BitCast(d8, selected(low, hn::ShiftRight<8>(even), odd));
    storeVector(d8, to, stream, selected(hn::Set(d8, uint8_t{0x80}), signs, capMagnitude));
  }
};

// The largest finite values are 448 (e4m3) and 57344 (e5m2). If no code were special, the code of
// NaN would mean 480 (e4m3) or 114688 (e5m2).
using E4m3 = SmallFormat<4, 3, 0x43e00000, 0x43f00000>;
using E5m2 = SmallFormat<5, 2, 0x47600000, 0x47e00000>;

using SumE4m3 = Float8Sum<3, 0x7e, 0x7e>;
using SumE5m2 = Float8Sum<2, 0x7b, 0x7b>;

// e4m3 has no infinity. widenFinite() turns an e4m3 NaN into kNanFloat. This function turns
// kNanFloat into a float NaN.
template <class Format>
HWY_INLINE VFloat e4m3NaN(VFloat value) {
  const DFloat d;
  const hn::RebindToSigned<DFloat> di;
  const auto nan = hn::BitCast(d, hn::Set(di, 0x7fc00000));
  return hn::IfThenElse(hn::Eq(hn::Abs(value), hn::BitCast(d, hn::Set(di, Format::kNanFloat))), nan, value);
}

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
// The AVX2 and AVX-512 kernels widen float8 through float16, because the CPU widens float16 without
// a penalty for denormals. An e5m2 is the upper half of a float16. A shift turns an e4m3 into a
// float16 that is 2^-8 times the value. a0 and a1 hold the even bytes of a group, a2 and a3 the odd
// bytes.
using SmallE4m3 = SmallFormat<4, 3, 0x43e00000, 0x43f00000, 8>;

template <class Format>
struct Float8 {
  static constexpr bool kE4m3 = Format::kShift == 20;
  using Sum = std::conditional_t<kE4m3, SumE4m3, SumE5m2>;
  using D = DFloat;
  using V = VFloat;
  using D16 = hn::Repartition<uint16_t, D>;
  static constexpr size_t kBytes = 1;
  static constexpr size_t kVectors = 4;
  static constexpr PrefetchMode kPrefetch = PrefetchMode::kAlways;

  static HWY_INLINE hn::Vec<D16> asHalves(hn::Vec<D16> word) {
    const D16 d16;
    if constexpr (!kE4m3) return hn::And(word, hn::Set(d16, uint16_t{0xff00}));
    const auto moved = hn::ShiftRight<1>(hn::BitCast(hn::RebindToSigned<D16>(), word));
    return hn::And(hn::BitCast(d16, moved), hn::Set(d16, uint16_t{0xbf80}));
  }

  static HWY_INLINE V widenHalves(hn::Vec<hn::Half<D16>> halves) {
    const D d;
    const V value = hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), halves));
    return kE4m3 && Format::kBias == E4m3::kBias ? hn::Mul(value, hn::Set(d, 256.0F)) : value;
  }

  static HWY_INLINE void load(const uint8_t* from, V& a0, V& a1, V& a2, V& a3) {
    const D16 d16;
    const hn::Half<D16> dHalf;
    const auto word = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(from));
    const auto even = asHalves(hn::ShiftLeft<8>(word));
    const auto odd = asHalves(word);
    a0 = widenHalves(hn::LowerHalf(dHalf, even)), a1 = widenHalves(hn::UpperHalf(dHalf, even));
    a2 = widenHalves(hn::LowerHalf(dHalf, odd)), a3 = widenHalves(hn::UpperHalf(dHalf, odd));
    if constexpr (kE4m3) {
      const hn::Repartition<int8_t, D> d8;
      const auto magnitude = hn::And(hn::BitCast(d8, word), hn::Set(d8, int8_t{0x7f}));
      if (HWY_LIKELY(hn::AllFalse(d8, hn::Eq(magnitude, hn::Set(d8, int8_t{0x7f}))))) return;
      a0 = e4m3NaN<Format>(a0), a1 = e4m3NaN<Format>(a1), a2 = e4m3NaN<Format>(a2), a3 = e4m3NaN<Format>(a3);
    }
  }

  static HWY_INLINE hn::Vec<hn::Half<D16>> packed(V even, V odd) {
    const auto both = hn::Or(roundSmall<Format>(even), hn::ShiftLeft<8>(roundSmall<Format>(odd)));
    return hn::DemoteTo(hn::Half<D16>(), hn::BitCast(hn::RebindToSigned<D>(), both));
  }

  static HWY_INLINE void store(uint8_t* to, bool stream, V a0, V a1, V a2, V a3) {
    const D16 d16;
    capGroup<Format>(a0, a1, a2, a3);
    storeVector(d16, reinterpret_cast<uint16_t*>(to), stream, hn::Combine(d16, packed(a1, a3), packed(a0, a2)));
  }
};
#else
// Each 32-bit SIMD lane has four elements. a0 holds the lowest element of each lane, a3 the
// highest.
using SmallE4m3 = E4m3;

template <class Format>
struct Float8 {
  static constexpr bool kE4m3 = Format::kShift == 20;
  using Sum = std::conditional_t<kE4m3, SumE4m3, SumE5m2>;
  using D = DFloat;
  using V = VFloat;
  static constexpr size_t kBytes = 1;
  static constexpr size_t kVectors = 4;
  static constexpr PrefetchMode kPrefetch = PrefetchMode::kAlways;

  static HWY_INLINE V widenHalves(VBits word) {
    if constexpr (kE4m3) return e4m3NaN<Format>(widenFinite<Format>(word));
    else return widenIeee<Format>(word);
  }

  static HWY_INLINE void load(const uint8_t* from, V& a0, V& a1, V& a2, V& a3) {
    const auto word = hn::LoadU(DBits(), reinterpret_cast<const uint32_t*>(from));
    a0 = widenHalves(hn::ShiftLeft<24>(word)), a1 = widenHalves(hn::ShiftLeft<16>(word));
    a2 = widenHalves(hn::ShiftLeft<8>(word)), a3 = widenHalves(word);
  }

  static HWY_INLINE void store(uint8_t* to, bool stream, V a0, V a1, V a2, V a3) {
    capGroup<Format>(a0, a1, a2, a3);
    const auto lower = hn::Or(roundSmall<Format>(a0), hn::ShiftLeft<8>(roundSmall<Format>(a1)));
    const auto upper = hn::Or(roundSmall<Format>(a2), hn::ShiftLeft<8>(roundSmall<Format>(a3)));
    storeVector(DBits(), reinterpret_cast<uint32_t*>(to), stream, hn::Or(lower, hn::ShiftLeft<16>(upper)));
  }
};
#endif

}  // namespace

void fillFloat8s(KernelTable& table) {
  fillRow<Float8<SmallE4m3>>(table, DataType::kFloat8e4m3);
  fill<Float8<E4m3>, FoldOp::kProd>(table, DataType::kFloat8e4m3);  // a product would contain the scale factor twice
  fillRow<Float8<E5m2>>(table, DataType::kFloat8e5m2);
}

}  // namespace bps::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
