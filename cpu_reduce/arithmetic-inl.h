// Arithmetic on vectors of accumulators. An accumulator has the type in which a kernel folds the
// elements. This header is included once per CPU target; see simd.h.
#if defined(BPS_CPU_REDUCE_ARITHMETIC_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BPS_CPU_REDUCE_ARITHMETIC_INL_H_
#undef BPS_CPU_REDUCE_ARITHMETIC_INL_H_
#else
#define BPS_CPU_REDUCE_ARITHMETIC_INL_H_
#endif

#include "cpu_reduce/simd.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace bps::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class D, class V>
HWY_INLINE V multiply(D d, V a, V b) {
  using T = hn::TFromD<D>;
  const hn::RebindToUnsigned<D> du;
  if constexpr (hwy::IsFloat<T>()) {
    return hn::Mul(a, b);
  } else if constexpr (sizeof(T) == 1) {  // the low byte of a product depends only on the low bytes of the factors
    const hn::Repartition<uint16_t, D> d16;
    const auto a16 = hn::BitCast(d16, a);
    const auto b16 = hn::BitCast(d16, b);
    const auto high = hn::Set(d16, uint16_t{0xff00});
    const auto even = hn::AndNot(high, hn::Mul(a16, b16));
    const auto odd = hn::Mul(hn::ShiftRight<8>(a16), hn::And(b16, high));
    return hn::BitCast(d, hn::Or(even, odd));
  } else if constexpr (sizeof(T) == 8) {  // low*low + ((low*high + high*low) << 32)
    const hn::Repartition<uint32_t, D> d32;
    const auto a32 = hn::BitCast(d32, a);
    const auto b32 = hn::BitCast(d32, b);
    const auto cross = hn::BitCast(du, hn::Mul(a32, hn::Reverse2(d32, b32)));
    const auto high = hn::Add(hn::ShiftLeft<32>(cross), hn::ShiftLeft<32>(hn::ShiftRight<32>(cross)));
    return hn::BitCast(d, hn::Add(hn::BitCast(du, hn::MulEven(a32, b32)), high));
  } else {
    return hn::Mul(a, b);
  }
}

// Do not use Highway's IsNaN(), which versions before 1.0 lack. Do not use Highway's Ne() either,
// because it returns false for two NaNs.
template <class V>
HWY_INLINE auto isNaN(V v) {
  return hn::Not(hn::Eq(v, v));
}

// Computes maximumNumber or minimumNumber of IEEE 754-2019; element.h describes them.
template <FoldOp kOp, class D, class V>
HWY_INLINE V maxOrMin(D, V a, V b) {
  constexpr bool kMax = kOp == FoldOp::kMax;
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    const auto first = hn::Or(kMax ? hn::Gt(a, b) : hn::Lt(a, b), isNaN(b));
    const auto equal = kMax ? hn::And(a, b) : hn::Or(a, b);
    return hn::IfThenElse(hn::Eq(a, b), equal, hn::IfThenElse(first, a, b));
  } else {
    return kMax ? hn::Max(a, b) : hn::Min(a, b);
  }
}

template <FoldOp kOp, class D, class V>
HWY_INLINE V combine(D d, V a, V b) {
  if constexpr (kOp == FoldOp::kSum) return hn::Add(a, b);
  else if constexpr (kOp == FoldOp::kProd) return multiply(d, a, b);
  else return maxOrMin<kOp>(d, a, b);
}

HWY_INLINE bool isUnscaled(const FoldArgs& fold) {
  return fold.scalars == nullptr && fold.divisors == nullptr && fold.divisor == 1;
}

template <FoldMode kMode, class D, class V>
HWY_INLINE void divide(D d, uint64_t divisor, V& a0, V& a1, V& a2, V& a3) {
  if constexpr (kMode.shape == Shape::kGeneral && hwy::IsFloat<hn::TFromD<D>>()) {
    if (divisor == 1) return;
    const V n = hn::Set(d, static_cast<hn::TFromD<D>>(divisor));
    a0 = hn::Div(a0, n), a1 = hn::Div(a1, n), a2 = hn::Div(a2, n), a3 = hn::Div(a3, n);
  }
}

template <FoldMode kMode, class D, class V>
HWY_INLINE void scale(D d, const FoldArgs& fold, size_t source, V& a0, V& a1, V& a2, V& a3) {
  if constexpr (kMode.shape != Shape::kGeneral) return;
  if (fold.scalars != nullptr) {
    hn::TFromD<D> scalar;
    __builtin_memcpy(&scalar, &fold.scalars[source], sizeof(scalar));
    const V s = hn::Set(d, scalar);
    a0 = multiply(d, a0, s), a1 = multiply(d, a1, s), a2 = multiply(d, a2, s), a3 = multiply(d, a3, s);
  }
  if (fold.divisors != nullptr) divide<kMode>(d, fold.divisors[source], a0, a1, a2, a3);
}

template <class D, class V>
HWY_INLINE V canonical(D d, V v) {
  const hn::RebindToUnsigned<D> du;
  using U = hn::TFromD<decltype(du)>;
  constexpr U kNan = sizeof(U) == 8 ? static_cast<U>(0x7ff8000000000000) : static_cast<U>(0x7fc00000);
  return hn::IfThenElse(hn::Eq(v, v), v, hn::BitCast(d, hn::Set(du, kNan)));
}

// Replaces the NaNs of a group of vectors by the canonical NaN. NaNs are rare, so the function
// first tests the sum of the four vectors. A NaN in a lane of any vector makes that lane of the sum
// a NaN.
template <class D, class V>
HWY_INLINE void canonicalGroup(D d, V& a0, V& a1, V& a2, V& a3) {
  const V sum = hn::Add(hn::Add(a0, a1), hn::Add(a2, a3));
  if (HWY_LIKELY(hn::AllTrue(d, hn::Eq(sum, sum)))) return;
  a0 = canonical(d, a0), a1 = canonical(d, a1), a2 = canonical(d, a2), a3 = canonical(d, a3);
}

template <class D, class V>
HWY_INLINE void storeVector(D d, hn::TFromD<D>* p, bool stream, V v) {
  if (stream) hn::Stream(v, d, p);
  else hn::StoreU(v, d, p);
}

// Implements Element (see simd-inl.h) for types that are folded without conversion. The
// accumulators have the type of the elements in memory.
template <class T>
struct StoredAsIs {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr size_t kBytes = sizeof(T);
  static constexpr size_t kVectors = HWY_TARGET == HWY_AVX3 ? 2 : 4;
  static constexpr PrefetchMode kPrefetch = PrefetchMode::kFromNextCache;

  static HWY_INLINE void load(const uint8_t* from, V& a0, V& a1, V& a2, V& a3) {
    const D d;
    const size_t n = hn::Lanes(d);
    const T* p = reinterpret_cast<const T*>(from);
    a0 = hn::LoadU(d, p), a1 = hn::LoadU(d, p + n), a2 = a0, a3 = a1;
    if constexpr (kVectors == 4) a2 = hn::LoadU(d, p + 2 * n), a3 = hn::LoadU(d, p + 3 * n);
  }

  static HWY_INLINE void store(uint8_t* to, bool stream, V a0, V a1, V a2, V a3) {
    const D d;
    const size_t n = hn::Lanes(d);
    T* p = reinterpret_cast<T*>(to);
    storeVector(d, p, stream, a0);
    storeVector(d, p + n, stream, a1);
    if constexpr (kVectors == 4) storeVector(d, p + 2 * n, stream, a2);
    if constexpr (kVectors == 4) storeVector(d, p + 3 * n, stream, a3);
  }
};

}  // namespace
}  // namespace bps::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // a SIMD target

#endif  // per-target include guard
