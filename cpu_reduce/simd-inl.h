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

#include "cpu_reduce/arithmetic-inl.h"
#include "cpu_reduce/simd.h"
#include "hwy/cache_control.h"
#include "hwy/highway.h"

// Highway's EMU128 stands for "no SIMD"; our own scalar kernels do that.
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace bps::cpu::HWY_NAMESPACE {
namespace {
constexpr size_t kMostGroupBytes = 4 * 256;  // four vectors of the widest SVE

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

constexpr size_t kMostPlain = 65536;  // sources of a plain sum: a Sum's results have that much room above the largest

template <class E>
constexpr bool kHasSum = requires {
  typename E::Sum;
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

// Bytes ahead of the group to fetch of a source. The CPU does that by itself where a group takes less time than two
// lines of a source take to come; conversions and small elements take more.
constexpr size_t kAhead = 1024;
template <class E>
HWY_INLINE void fetchAhead(const uint8_t* from) {
  if constexpr (E::kBytes > 2 || !hwy::IsFloat<hn::TFromD<typename E::D>>()) return;
  const uintptr_t ahead = reinterpret_cast<uintptr_t>(from) + kAhead;  // may lie outside the source
  hwy::Prefetch(reinterpret_cast<const uint8_t*>(ahead));
  if constexpr (E::kBytes == 2) hwy::Prefetch(reinterpret_cast<const uint8_t*>(ahead + 64));
}

template <class E, FoldOp kOp, Shape kShape, class Place>
HWY_INLINE void foldGroup(const Fold& fold, const Place& place, uint8_t* out, bool stream) {
  const typename E::D d;
  using V = hn::Vec<typename E::D>;
  V a0, a1, a2, a3;
  E::load(place(fold, 0), a0, a1, a2, a3);
  fetchAhead<E>(place(fold, 0));
  scale<kShape>(d, fold, 0, a0, a1, a2, a3);
  const size_t nSources = kShape == Shape::kPlainTwo ? 2 : fold.nSources;
  for (size_t source = 1; source < nSources; source++) {
    V b0, b1, b2, b3;
    E::load(place(fold, source), b0, b1, b2, b3);
    fetchAhead<E>(place(fold, source));
    scale<kShape>(d, fold, source, b0, b1, b2, b3);
    a0 = combine<kOp>(d, a0, b0), a1 = combine<kOp>(d, a1, b1);
    a2 = combine<kOp>(d, a2, b2), a3 = combine<kOp>(d, a3, b3);
  }
  divide<kShape>(d, fold, a0, a1, a2, a3);
  E::store(out, stream, a0, a1, a2, a3);
}

// The same for plain sums of an E that has a Sum; see simd_float8.cc. False if it cannot do that group.
template <class E, Shape kShape, class Place>
HWY_INLINE bool sumGroup(const Fold& fold, const Place& place, uint8_t* out, bool stream) {
  using Sum = typename E::Sum;
  const typename E::D d;
  typename Sum::V a0, a1, a2, a3;
  auto most = Sum::none();
  Sum::load(place(fold, 0), a0, a1, a2, a3, most);
  fetchAhead<E>(place(fold, 0));
  const size_t nSources = kShape == Shape::kPlainTwo ? 2 : fold.nSources;
  for (size_t source = 1; source < nSources; source++) {
    typename Sum::V b0, b1, b2, b3;
    Sum::load(place(fold, source), b0, b1, b2, b3, most);
    fetchAhead<E>(place(fold, source));
    a0 = add(d, a0, b0), a1 = add(d, a1, b1), a2 = add(d, a2, b2), a3 = add(d, a3, b3);
  }
  if (HWY_UNLIKELY(Sum::special(most))) return false;
  Sum::store(out, stream, a0, a1, a2, a3);
  return true;
}

template <class E, FoldOp kOp>
HWY_NOINLINE void foldPartial(const Fold& fold, size_t offset, size_t bytes) {
  HWY_ALIGN uint8_t buffer[kMostGroupBytes] = {};
  foldGroup<E, kOp, Shape::kGeneral>(fold, Partial{offset, bytes, buffer}, buffer, false);
  __builtin_memcpy(static_cast<uint8_t*>(fold.dst) + offset, buffer, bytes);
}

template <class E, FoldOp kOp, Shape kShape, class Place>
HWY_INLINE bool foldWhole(const Fold& fold, const Place& place, uint8_t* out, bool stream) {
  if constexpr (kOp == FoldOp::kSum && kShape != Shape::kGeneral && kHasSum<E>) {
    return sumGroup<E, kShape>(fold, place, out, stream);
  } else {
    foldGroup<E, kOp, kShape>(fold, place, out, stream);
    return true;
  }
}

// The offset where it ended: that of a group that the shape cannot do, or the end.
template <class E, FoldOp kOp, Shape kShape, bool stream>
HWY_NOINLINE size_t foldGroups(const Fold& fold, size_t offset, size_t end) {
  const size_t group = E::kVectors * hn::Lanes(typename E::D()) * E::kBytes;
  uint8_t* const dst = static_cast<uint8_t*>(fold.dst);
  if constexpr (kShape == Shape::kPlainTwo) {
    const uint8_t* const first = static_cast<const uint8_t*>(fold.sources[0]);
    const uint8_t* const second = static_cast<const uint8_t*>(fold.sources[1]);
    for (; offset < end; offset += group) {
      if (!foldWhole<E, kOp, kShape>(fold, WholeOfTwo{offset, first, second}, dst + offset, stream)) break;
    }
  } else {
    for (; offset < end; offset += group) {
      if (!foldWhole<E, kOp, kShape>(fold, Whole{offset}, dst + offset, stream)) break;
    }
  }
  return offset;
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
  const bool plain = kOp == FoldOp::kSum && fold.scalars == nullptr && fold.divisor == 1 && fold.nSources <= kMostPlain;
  const auto groups = [&]<Shape kShape>() {
    for (size_t at = offset; at < whole;) {
      at = stream ? foldGroups<E, kOp, kShape, true>(fold, at, whole)
                  : foldGroups<E, kOp, kShape, false>(fold, at, whole);
      if (at >= whole) break;
      foldPartial<E, kOp>(fold, at, group);
      at += group;
    }
  };
  if (!plain) groups.template operator()<Shape::kGeneral>();
  else if (fold.nSources != 2) groups.template operator()<Shape::kPlain>();
  else groups.template operator()<Shape::kPlainTwo>();
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
