// The SIMD kernels of every target of this architecture: each function fills the rows of its types in a table.
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
#if defined(__x86_64__)
BPS_SIMD_TARGET(N_SSE4)
BPS_SIMD_TARGET(N_AVX2)
BPS_SIMD_TARGET(N_AVX3)
#elif defined(__aarch64__)
BPS_SIMD_TARGET(N_NEON)
BPS_SIMD_TARGET(N_SVE)
#endif
}  // namespace bps::cpu
