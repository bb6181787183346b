// Re-includes the file that defined HWY_TARGET_INCLUDE for every target but the last. Not guarded: see simd.h.
#include "cpu_reduce/simd.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#pragma GCC diagnostic pop
