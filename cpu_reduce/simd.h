// Declares the SIMD kernels of every target of this architecture, and the thresholds and modes that
// all kernels share. Each fill function stores the kernels for its data types in a table.
//
// Highway's foreach_target.h compiles each simd_*.cc once per target, in a namespace that Highway
// names. bps uses only the headers of Highway, not its library. dispatch.cc detects the CPU and
// chooses the kernels.
#pragma once
#include "cpu_reduce/dispatch.h"

// bps is not built for these targets. SSSE3 is too old to matter. CPUs with SVE2 use the SVE
// kernels.
#if defined(__x86_64__)
#define HWY_DISABLED_TARGETS (HWY_SSSE3)
#else
#define HWY_DISABLED_TARGETS (HWY_SVE2 | HWY_SVE2_128 | HWY_SVE_256)
#endif
#define HWY_DISABLE_PCLMUL_AES

#define BPS_SIMD_TARGET(N)               \
  namespace N {                          \
  void fillIntegers(KernelTable& table); \
  void fillFloats(KernelTable& table);   \
  void fillHalves(KernelTable& table);   \
  void fillFloat8s(KernelTable& table);  \
  }

namespace bps::cpu {
// The shape of a call. kPlain is a sum without scalars and divisors. kPlainTwo is a kPlain sum of
// two sources. kGeneral is any other call. The plain shapes are compiled without the code for
// scalars and divisors.
enum class Shape { kGeneral, kPlain, kPlainTwo };

// Says how a kernel folds the groups of a call. simd-inl.h defines a group.
struct FoldMode {
  Shape shape = Shape::kGeneral;
  bool stream = false;
  bool prefetch = false;
};

// Says when the kernels prefetch the sources by instructions. For data in memory, the hardware
// prefetcher of the CPU is better. For data in the next cache level, the hardware prefetcher is
// late, because the work on a group takes longer than the arrival of its cache lines. The delay is
// small for types without conversion. For float8, the delay is so large that instructions are
// always faster.
enum class PrefetchMode { kFromNextCache, kFromCaches, kAlways };

// The largest number of sources of a plain sum. More sources could overflow the accumulators of
// E::Sum (simd-inl.h).
inline constexpr size_t kMaxPlainSources = 65536;

// Kernels correct their results (E::fixUp in simd-inl.h) in blocks of this size, while the results
// are still in the cache.
inline constexpr size_t kFixUpBlockBytes = 65536;

// Returns the number of bytes from dst to the next cache line, or 0 if no element begins at that
// line.
inline size_t bytesToCacheLine(const uint8_t* dst, size_t elementBytes) {
  const size_t bytes = (64 - reinterpret_cast<uintptr_t>(dst) % 64) % 64;
  return bytes % elementBytes == 0 ? bytes : 0;
}

#if defined(__x86_64__)
BPS_SIMD_TARGET(N_SSE4)
BPS_SIMD_TARGET(N_AVX2)
BPS_SIMD_TARGET(N_AVX3)
#elif defined(__aarch64__)
BPS_SIMD_TARGET(N_NEON)
BPS_SIMD_TARGET(N_SVE)
#endif
}  // namespace bps::cpu
