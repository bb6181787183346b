// The loop that all SIMD kernels share. This header is included once per CPU target; see simd.h.
//
// A group is the data that a kernel folds in one step: four vectors of accumulators, a0 to a3, or two (E::kVectors).
// The vectors are independent, which hides the latency of additions, and they fit into the registers of SSE4. On x86,
// a group has at most 128 bytes of a source, because DRAM slows down if many reads in a row come from one stream. A
// kernel folds a group from all sources before it writes the result, so dst may be one of the sources. A partial group
// at the start or the end of dst is copied to a stack buffer and folded like a full group.
//
// An Element describes one element type:
//   D, kBytes, kVectors        tag of the accumulators; bytes of an element in memory; vectors in a group
//   kPrefetch                  says when a kernel prefetches the sources; see shouldPrefetch()
//   load(p, a0..a3)            widens the group at p (any alignment); each type chooses the order of the elements
//   store(p, stream, a0..a3)   rounds the group and writes it to p in the order that load() chose
// An Element may also define:
//   add(a, b), Sum             add() adds two accumulators in another way; Sum computes plain sums, see sumGroup()
//   fixUp(p, bytes, seen)      corrects a block of results if `seen` says so; store() then updates `seen`
// Vectors are never kept in arrays or structs, because SVE vectors have no fixed size. Kernels use no standard library
// templates, because the linker could merge an instance for this target with an instance that must run on every CPU.
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

// Highway's targets EMU128 and SCALAR mean "no SIMD". scalar_kernels.cc has the kernels for CPUs without SIMD.
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace bps::cpu::HWY_NAMESPACE {
namespace {
constexpr size_t kMaxGroupBytes = 4 * 256;  // four vectors of the widest SVE registers

// A locator returns the address of the group at a byte offset. GroupAt returns an address in the source itself.
struct GroupAt {
  HWY_INLINE const uint8_t* operator()(const FoldArgs& fold, size_t source) const {
    return static_cast<const uint8_t*>(fold.sources[source]) + offset;
  }
  size_t offset;
};

// A locator for two sources with both pointers in registers. GroupAt must reload fold.sources after each store to dst.
struct GroupOfTwoAt {
  HWY_INLINE const uint8_t* operator()(const FoldArgs&, size_t source) const {
    return (source == 0 ? first : second) + offset;
  }
  size_t offset;
  const uint8_t* first;
  const uint8_t* second;
};

// A locator for a partial group, which returns a copy of the group, padded with zeros.
struct PaddedGroup {
  HWY_INLINE const uint8_t* operator()(const FoldArgs& fold, size_t source) const {
    __builtin_memcpy(buffer, static_cast<const uint8_t*>(fold.sources[source]) + offset, bytes);
    return buffer;
  }
  size_t offset;
  size_t bytes;
  uint8_t* buffer;
};

template <class E>
constexpr bool kHasSum = requires {
  typename E::Sum;
};
template <class E>
constexpr bool kHasAdd = requires(hn::Vec<typename E::D> v) {
  E::add(v, v);
};
template <class E>
constexpr bool kHasFixUp = requires(hn::Vec<typename E::D> v) {
  E::fixUp(nullptr, 0, v);
};

template <class E>
HWY_INLINE bool shouldPrefetch(const FoldArgs& fold) {
  if (E::kPrefetch == PrefetchMode::kAlways) return true;
  const size_t bytes = fold.count * E::kBytes * fold.nSources;
  return bytes <= 4 * fold.cacheBytes && (E::kPrefetch == PrefetchMode::kFromCaches || bytes > fold.cacheBytes);
}

// Prefetches the cache lines of a later group of the same source.
template <class E, bool prefetch>
HWY_INLINE void prefetchGroup(const uint8_t* from) {
  if constexpr (!prefetch) return;
  constexpr size_t kAhead = E::kPrefetch == PrefetchMode::kAlways ? 2048 : 1024;
  const uintptr_t ahead = reinterpret_cast<uintptr_t>(from) + kAhead;  // the address may be outside the source
  const size_t group = E::kVectors * hn::Lanes(typename E::D()) * E::kBytes;
  for (size_t line = 0; line < group; line += 64) hwy::Prefetch(reinterpret_cast<const uint8_t*>(ahead + line));
}

template <class E, FoldOp kOp, class V>
HWY_INLINE V foldVectors(V a, V b) {
  if constexpr (kOp == FoldOp::kSum && kHasAdd<E>) return E::add(a, b);
  else return combine<kOp>(typename E::D(), a, b);
}

template <class E, FoldOp kOp, FoldMode kMode, class Locator, class V>
HWY_INLINE void foldGroup(const FoldArgs& fold, const Locator& locate, uint8_t* out, V& seen) {
  const typename E::D d;
  V a0, a1, a2, a3;
  E::load(locate(fold, 0), a0, a1, a2, a3);
  prefetchGroup<E, kMode.prefetch>(locate(fold, 0));
  scale<kMode>(d, fold, 0, a0, a1, a2, a3);
  const size_t nSources = kMode.shape == Shape::kPlainTwo ? 2 : fold.nSources;
  for (size_t source = 1; source < nSources; source++) {
    V b0, b1, b2, b3;
    E::load(locate(fold, source), b0, b1, b2, b3);
    prefetchGroup<E, kMode.prefetch>(locate(fold, source));
    scale<kMode>(d, fold, source, b0, b1, b2, b3);
    a0 = foldVectors<E, kOp>(a0, b0), a1 = foldVectors<E, kOp>(a1, b1);
    a2 = foldVectors<E, kOp>(a2, b2), a3 = foldVectors<E, kOp>(a3, b3);
  }
  divide<kMode>(d, fold.divisor, a0, a1, a2, a3);
  if constexpr (kHasFixUp<E>) E::store(out, kMode.stream, a0, a1, a2, a3, seen);
  else E::store(out, kMode.stream, a0, a1, a2, a3);
}

// Folds a group of a plain sum by E::Sum. If a source has special values, stores nothing and returns false.
template <class E, FoldMode kMode, class Locator>
HWY_INLINE bool sumGroup(const FoldArgs& fold, const Locator& locate, uint8_t* out) {
  using Sum = typename E::Sum;
  typename Sum::V a0, a1, a2, a3;
  auto most = Sum::none();
  Sum::load(locate(fold, 0), a0, a1, a2, a3, most);
  prefetchGroup<E, kMode.prefetch>(locate(fold, 0));
  const size_t nSources = kMode.shape == Shape::kPlainTwo ? 2 : fold.nSources;
  for (size_t source = 1; source < nSources; source++) {
    typename Sum::V b0, b1, b2, b3;
    Sum::load(locate(fold, source), b0, b1, b2, b3, most);
    prefetchGroup<E, kMode.prefetch>(locate(fold, source));
    a0 = hn::Add(a0, b0), a1 = hn::Add(a1, b1), a2 = hn::Add(a2, b2), a3 = hn::Add(a3, b3);
  }
  if (HWY_UNLIKELY(Sum::special(most))) return false;
  Sum::store(out, kMode.stream, a0, a1, a2, a3);
  return true;
}

template <class E, FoldOp kOp>
HWY_NOINLINE void foldPartial(const FoldArgs& fold, size_t offset, size_t bytes) {
  HWY_ALIGN uint8_t buffer[kMaxGroupBytes] = {};
  auto seen = hn::Zero(typename E::D());
  foldGroup<E, kOp, FoldMode{}>(fold, PaddedGroup{offset, bytes, buffer}, buffer, seen);
  if constexpr (kHasFixUp<E>) E::fixUp(buffer, bytes, seen);
  __builtin_memcpy(static_cast<uint8_t*>(fold.dst) + offset, buffer, bytes);
}

template <class E, FoldOp kOp, FoldMode kMode, class Locator, class V>
HWY_INLINE bool foldWhole(const FoldArgs& fold, const Locator& locate, uint8_t* out, V& seen) {
  if constexpr (kOp == FoldOp::kSum && kMode.shape != Shape::kGeneral && kHasSum<E>) {
    return sumGroup<E, kMode>(fold, locate, out);
  } else {
    foldGroup<E, kOp, kMode>(fold, locate, out, seen);
    return true;
  }
}

// Folds full groups. Returns `end`, or the offset of the first group for which sumGroup() returned false.
template <class E, FoldOp kOp, FoldMode kMode>
HWY_NOINLINE size_t foldGroups(const FoldArgs& fold, size_t offset, size_t end) {
  const size_t group = E::kVectors * hn::Lanes(typename E::D()) * E::kBytes;
  uint8_t* const dst = static_cast<uint8_t*>(fold.dst);
  auto seen = hn::Zero(typename E::D());
  [[maybe_unused]] const size_t start = offset;
  if constexpr (kMode.shape == Shape::kPlainTwo) {
    const uint8_t* const first = static_cast<const uint8_t*>(fold.sources[0]);
    const uint8_t* const second = static_cast<const uint8_t*>(fold.sources[1]);
    for (; offset < end; offset += group) {
      if (!foldWhole<E, kOp, kMode>(fold, GroupOfTwoAt{offset, first, second}, dst + offset, seen)) break;
    }
  } else {
    for (; offset < end; offset += group) {
      if (!foldWhole<E, kOp, kMode>(fold, GroupAt{offset}, dst + offset, seen)) break;
    }
  }
  if constexpr (kHasFixUp<E>) E::fixUp(dst + start, end - start, seen);
  return offset;
}

template <class E, FoldOp kOp, FoldMode kMode>
HWY_INLINE void foldBlocks(const FoldArgs& fold, size_t offset, size_t end) {
  const size_t group = E::kVectors * hn::Lanes(typename E::D()) * E::kBytes;
  const size_t blockBytes = kHasFixUp<E> ? kFixUpBlockBytes / group * group : end;
  while (offset < end) {
    const size_t block = end - offset > blockBytes ? offset + blockBytes : end;
    offset = foldGroups<E, kOp, kMode>(fold, offset, block);
    if (offset >= block) continue;
    foldPartial<E, kOp>(fold, offset, group);
    offset += group;
  }
}

template <class E, FoldOp kOp, Shape kShape>
HWY_INLINE void foldShape(const FoldArgs& fold, size_t offset, size_t end, bool stream) {
  const bool prefetch = kShape != Shape::kGeneral && shouldPrefetch<E>(fold);
  if (stream && E::kPrefetch == PrefetchMode::kAlways)
    foldBlocks<E, kOp, FoldMode{kShape, true, true}>(fold, offset, end);
  else if (stream) foldBlocks<E, kOp, FoldMode{kShape, true, false}>(fold, offset, end);
  else if (prefetch) foldBlocks<E, kOp, FoldMode{kShape, false, true}>(fold, offset, end);
  else foldBlocks<E, kOp, FoldMode{kShape, false, false}>(fold, offset, end);
}

template <class E, FoldOp kOp>
void foldAll(const FoldArgs& fold) {
  const size_t group = E::kVectors * hn::Lanes(typename E::D()) * E::kBytes;
  const uint8_t* const dst = static_cast<const uint8_t*>(fold.dst);
  size_t offset = fold.begin * E::kBytes;
  const size_t end = offset + fold.count * E::kBytes;
  const size_t head = bytesToCacheLine(dst + offset, E::kBytes);
  if (head != 0 && end - offset >= 4 * group) {
    for (const size_t line = offset + head; offset < line;) {
      const size_t bytes = line - offset < group ? line - offset : group;
      foldPartial<E, kOp>(fold, offset, bytes);
      offset += bytes;
    }
  }
  const size_t whole = offset + (end - offset) / group * group;
  const bool stream = fold.stream && reinterpret_cast<uintptr_t>(dst + offset) % 64 == 0;
  const bool plain = kOp == FoldOp::kSum && isUnscaled(fold) && fold.nSources <= kMaxPlainSources;
  if (!plain) foldShape<E, kOp, Shape::kGeneral>(fold, offset, whole, stream);
  else if (fold.nSources != 2) foldShape<E, kOp, Shape::kPlain>(fold, offset, whole, stream);
  else foldShape<E, kOp, Shape::kPlainTwo>(fold, offset, whole, stream);
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
