// Determines the memory that is still available on this machine.
#pragma once
#include <cstdint>

namespace bps::perf {

// Returns the bytes that are available without swapping, within the limit of this process's control
// group. Returns UINT64_MAX if the number is unknown.
uint64_t availableMemory();

}  // namespace bps::perf
