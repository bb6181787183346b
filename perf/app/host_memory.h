// How much memory this machine can still give.
#pragma once
#include <cstdint>

namespace bps::perf {

// Bytes that can be had without swapping, within the limit of this process's control group; UINT64_MAX: not known.
uint64_t availableMemory();

}  // namespace bps::perf
