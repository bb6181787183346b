// The loop that all SIMD kernels share. Included once per target; see simd.h.
//
// A group is four vectors of accumulators, a0 to a3, or two (E::kVectors): 128 bytes of a source or less, because
// longer turns between the streams are slower from DRAM; enough independent work to hide the latency of an addition,
// few enough that accumulators, constants and a source fit the registers of SSE4. All sources of a group are folded
// before its result is written, so dst may be one of them and the result is written once. What is left over at the ends
// is copied to and from a buffer on the stack and goes through the same instructions as a whole group.
//
// An Element says how a group lies in memory:
//   D, kBytes                  the accumulators' tag; bytes of an element in memory
//   load(p, a0..a3)            widens the group at p (any alignment) in an order of its own
//   store(p, stream, a0..a3)   rounds it and writes it back in the same order
// Vectors are never kept in arrays or structs, for SVE's have no size. Standard templates are not used: the linker
// might merge their instances for this target with those of code for every CPU.
#if defined(BPS_CPU_REDUCE_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BPS_CPU_REDUCE_SIMD_INL_H_
#undef BPS_CPU_REDUCE_SIMD_INL_H_
#else
#define BPS_CPU_REDUCE_SIMD_INL_H_
#endif

#include "cpu_reduce/simd.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

// Highway's EMU128 stands for "no SIMD"; our own scalar kernels do that.
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace bps::cpu::HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kMostGroupBytes = 4 * 256;  // four vectors of the widest SVE

template <class D, class V>
HWY_INLINE V multiply(D d, V a, V b) {
  using T = hn::TFromD<D>;
  const hn::RebindToUnsigned<D> du;
  if constexpr (hwy::IsFloat<T>()) {
    return hn::Mul(a, b);
  } else if constexpr (sizeof(T) == 1) {  // the low byte of a product depends on low bytes only
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

// maximumNumber, minimumNumber: see element.h.
template <FoldOp kOp, class D, class V>
HWY_INLINE V extreme(D, V a, V b) {
  constexpr bool kMax = kOp == FoldOp::kMax;
  if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
    const auto first = hn::Or(kMax ? hn::Gt(a, b) : hn::Lt(a, b), hn::IsNaN(b));
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
  else return extreme<kOp>(d, a, b);
}

template <class D, class V>
HWY_INLINE V canonical(D d, V v) {
  const hn::RebindToUnsigned<D> du;
  using U = hn::TFromD<decltype(du)>;
  constexpr U kNan = sizeof(U) == 8 ? static_cast<U>(0x7ff8000000000000) : static_cast<U>(0x7fc00000);
  return hn::IfThenElse(hn::IsNaN(v), hn::BitCast(d, hn::Set(du, kNan)), v);
}

// NaNs of a group become the canonical one. They are rare, and one of them makes the sum of all a NaN.
template <class D, class V>
HWY_INLINE void canonicalGroup(D d, V& a0, V& a1, V& a2, V& a3) {
  const V sum = hn::Add(hn::Add(a0, a1), hn::Add(a2, a3));
  if (HWY_LIKELY(hn::AllFalse(d, hn::IsNaN(sum)))) return;
  a0 = canonical(d, a0), a1 = canonical(d, a1), a2 = canonical(d, a2), a3 = canonical(d, a3);
}

template <class D, class V>
HWY_INLINE void storeVector(D d, hn::TFromD<D>* p, bool stream, V v) {
  if (stream) hn::Stream(v, d, p);
  else hn::StoreU(v, d, p);
}

// Where the group at a byte offset lies: in the sources themselves...
struct Whole {
  HWY_INLINE const uint8_t* operator()(const Fold& fold, size_t source) const {
    return static_cast<const uint8_t*>(fold.sources[source]) + offset;
  }
  size_t offset;
};

// ... or there, with the only two in registers: stores to dst may change fold.sources for all that the compiler
// knows...
struct WholeOfTwo {
  HWY_INLINE const uint8_t* operator()(const Fold&, size_t source) const {
    return (source == 0 ? first : second) + offset;
  }
  size_t offset;
  const uint8_t* first;
  const uint8_t* second;
};

// ... or, where less than a group is left, in a copy that is filled up with zeros.
struct Partial {
  HWY_INLINE const uint8_t* operator()(const Fold& fold, size_t source) const {
    __builtin_memcpy(buffer, static_cast<const uint8_t*>(fold.sources[source]) + offset, bytes);
    return buffer;
  }
  size_t offset;
  size_t bytes;
  uint8_t* buffer;
};

// What a call asks for beyond folding, so that the common case carries none of it.
enum class Shape { kGeneral, kPlain, kPlainTwo };

template <Shape kShape, class D, class V>
HWY_INLINE void scale(D d, const Fold& fold, size_t source, V& a0, V& a1, V& a2, V& a3) {
  if (kShape != Shape::kGeneral || fold.scalars == nullptr) return;
  hn::TFromD<D> scalar;
  __builtin_memcpy(&scalar, &fold.scalars[source], sizeof(scalar));
  const V s = hn::Set(d, scalar);
  a0 = multiply(d, a0, s), a1 = multiply(d, a1, s), a2 = multiply(d, a2, s), a3 = multiply(d, a3, s);
}

template <Shape kShape, class D, class V>
HWY_INLINE void divide(D d, const Fold& fold, V& a0, V& a1, V& a2, V& a3) {
  if constexpr (kShape == Shape::kGeneral && hwy::IsFloat<hn::TFromD<D>>()) {
    if (fold.divisor == 1) return;
    const V n = hn::Set(d, static_cast<hn::TFromD<D>>(fold.divisor));
    a0 = hn::Div(a0, n), a1 = hn::Div(a1, n), a2 = hn::Div(a2, n), a3 = hn::Div(a3, n);
  }
}

template <class E, FoldOp kOp, Shape kShape, class Place>
HWY_INLINE void foldGroup(const Fold& fold, const Place& place, uint8_t* out, bool stream) {
  const typename E::D d;
  using V = hn::Vec<typename E::D>;
  V a0, a1, a2, a3;
  E::load(place(fold, 0), a0, a1, a2, a3);
  scale<kShape>(d, fold, 0, a0, a1, a2, a3);
  const size_t nSources = kShape == Shape::kPlainTwo ? 2 : fold.nSources;
  for (size_t source = 1; source < nSources; source++) {
    V b0, b1, b2, b3;
    E::load(place(fold, source), b0, b1, b2, b3);
    scale<kShape>(d, fold, source, b0, b1, b2, b3);
    a0 = combine<kOp>(d, a0, b0), a1 = combine<kOp>(d, a1, b1);
    a2 = combine<kOp>(d, a2, b2), a3 = combine<kOp>(d, a3, b3);
  }
  divide<kShape>(d, fold, a0, a1, a2, a3);
  E::store(out, stream, a0, a1, a2, a3);
}

template <class E, FoldOp kOp>
HWY_NOINLINE void foldPartial(const Fold& fold, size_t offset, size_t bytes) {
  HWY_ALIGN uint8_t buffer[kMostGroupBytes] = {};
  foldGroup<E, kOp, Shape::kGeneral>(fold, Partial{offset, bytes, buffer}, buffer, false);
  __builtin_memcpy(static_cast<uint8_t*>(fold.dst) + offset, buffer, bytes);
}

template <class E, FoldOp kOp, Shape kShape>
HWY_NOINLINE void foldGroups(const Fold& fold, size_t offset, size_t end, bool stream) {
  const size_t group = E::kVectors * hn::Lanes(typename E::D()) * E::kBytes;
  uint8_t* const dst = static_cast<uint8_t*>(fold.dst);
  if constexpr (kShape == Shape::kPlainTwo) {
    const uint8_t* const first = static_cast<const uint8_t*>(fold.sources[0]);
    const uint8_t* const second = static_cast<const uint8_t*>(fold.sources[1]);
    for (; offset < end; offset += group) {
      foldGroup<E, kOp, kShape>(fold, WholeOfTwo{offset, first, second}, dst + offset, stream);
    }
  } else {
    for (; offset < end; offset += group) {
      foldGroup<E, kOp, kShape>(fold, Whole{offset}, dst + offset, stream);
    }
  }
}

// Bytes before dst is aligned to a cache line; 0 if it never is.
HWY_INLINE size_t bytesToLine(const uint8_t* dst, size_t elementBytes) {
  const size_t bytes = (64 - reinterpret_cast<uintptr_t>(dst) % 64) % 64;
  return bytes % elementBytes == 0 ? bytes : 0;
}

template <class E, FoldOp kOp>
void foldAll(const Fold& fold) {
  const size_t group = E::kVectors * hn::Lanes(typename E::D()) * E::kBytes;
  const uint8_t* const dst = static_cast<const uint8_t*>(fold.dst);
  size_t offset = fold.begin * E::kBytes;
  const size_t end = offset + fold.count * E::kBytes;
  const size_t head = bytesToLine(dst + offset, E::kBytes);
  if (head != 0 && end - offset >= 4 * group) {
    for (const size_t line = offset + head; offset < line;) {
      const size_t bytes = line - offset < group ? line - offset : group;
      foldPartial<E, kOp>(fold, offset, bytes);
      offset += bytes;
    }
  }
  const size_t whole = offset + (end - offset) / group * group;
  const bool stream = fold.stream && reinterpret_cast<uintptr_t>(dst + offset) % 64 == 0;
  const bool plain = kOp == FoldOp::kSum && fold.scalars == nullptr && fold.divisor == 1;
  if (!plain) foldGroups<E, kOp, Shape::kGeneral>(fold, offset, whole, stream);
  else if (fold.nSources != 2) foldGroups<E, FoldOp::kSum, Shape::kPlain>(fold, offset, whole, stream);
  else foldGroups<E, FoldOp::kSum, Shape::kPlainTwo>(fold, offset, whole, stream);
  if (whole < end) foldPartial<E, kOp>(fold, whole, end - whole);
  if (stream) hwy::FlushStream();
}

template <class E, FoldOp kOp>
void fill(KernelTable& table, DataType type) {
  table.kernels[static_cast<size_t>(type)][static_cast<size_t>(kOp)] = foldAll<E, kOp>;
}

template <class E>
void fillRow(KernelTable& table, DataType type) {
  fill<E, FoldOp::kSum>(table, type);
  fill<E, FoldOp::kProd>(table, type);
  fill<E, FoldOp::kMax>(table, type);
  fill<E, FoldOp::kMin>(table, type);
}

}  // namespace
}  // namespace bps::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // a SIMD target

#endif  // per-target include guard
