// The memory that is still available on this machine.
#pragma once
#include <cstdint>

namespace bps::perf {

// Bytes available without swapping, within the limit of this process's control group. UINT64_MAX: unknown.
uint64_t availableMemory();

}  // namespace bps::perf
