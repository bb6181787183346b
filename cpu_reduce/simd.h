// Declares the SIMD kernels of every target of this architecture, and the thresholds and modes that they share. Each
// fill function sets the kernels of its types in a table.
//
// Highway's foreach_target.h compiles each simd_*.cc once per target, in a namespace that Highway names. Only Highway's
// headers are used, not its library; dispatch.cc detects the CPU and dispatches.
#pragma once
#include "cpu_reduce/dispatch.h"

// Targets that are not built. SSSE3 is too old to matter.
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
// The shape of a call. kPlain: a sum without scalars and divisors; kPlainTwo: the same of two sources; kGeneral: the
// rest. The plain shapes are compiled without the code for scalars and divisors.
enum class Shape { kGeneral, kPlain, kPlainTwo };

// How the groups of a call are folded.
struct FoldMode {
  Shape shape = Shape::kGeneral;
  bool stream = false;
  bool prefetch = false;
};

// When the kernels prefetch sources by instructions. The CPU's own prefetcher is better for data in memory. For data in
// the next cache level it is late, because a group takes longer than its lines take to arrive. The delay is small for
// types without conversion, and so large for float8 that instructions always win.
enum class PrefetchMode { kFromNextCache, kFromCaches, kAlways };

// The most sources of a plain sum: more could overflow the accumulators of a Sum.
inline constexpr size_t kMaxPlainSources = 65536;

// Results are fixed up in blocks of this size, while they are still in the cache.
inline constexpr size_t kFixUpBlockBytes = 65536;

// The bytes from dst to the next cache line; 0 if no element starts there.
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
