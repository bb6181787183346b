// Includes the file that HWY_TARGET_INCLUDE names again for every CPU target except the last. This
// header has no include guard, because every simd_*.cc is compiled once per target; see simd.h.
#include "cpu_reduce/simd.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#pragma GCC diagnostic pop
