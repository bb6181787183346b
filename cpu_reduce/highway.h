// Re-includes the file named by HWY_TARGET_INCLUDE for every target except the last. No include guard: see simd.h.
#include "cpu_reduce/simd.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#pragma GCC diagnostic pop
