// The SIMD kernels of every target of this architecture: each function fills the rows of its types in a table. And what
// all targets' kernels decide by.
//
// Each simd_*.cc is compiled once per target by Highway's foreach_target.h; the namespaces are Highway's names. Only
// Highway's headers are used, nothing of its library: detection and dispatch are dispatch.cc's.
#pragma once
#include "cpu_reduce/dispatch.h"

// Unwanted targets: SSSE3 is too old to matter, and the scalar kernels are ours, not Highway's.
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
// What a call asks for beyond folding, so that the common case carries none of it.
enum class Shape { kGeneral, kPlain, kPlainTwo };

// How the groups of a call are folded.
struct FoldMode {
  Shape shape = Shape::kGeneral;
  bool stream = false;
  bool prefetch = false;
};

// Whether sources are fetched ahead by instructions. The CPU does that too. From memory it does it better; from the
// next cache it is late by what a group takes longer than its lines take to come, which is little where nothing is
// converted and so much with float8 that instructions win everywhere.
enum class PrefetchMode { kFromNextCache, kFromCaches, kAlways };

// Sources of a plain sum: a Sum's results have that much room above the largest.
inline constexpr size_t kMaxPlainSources = 65536;

// Results that are fixed up as one block are still in the cache.
inline constexpr size_t kFixUpBlockBytes = 65536;

// Bytes before dst is aligned to a cache line; 0 if it never is.
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
