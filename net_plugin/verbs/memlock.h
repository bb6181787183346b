// Functions for RLIMIT_MEMLOCK, the limit of the memory that this process may register with
// devices. The plugin checks the limit before each registration, because the error of the kernel
// only says that there is no memory.
#pragma once
#include <cstdint>

#include "src/base/status.h"

namespace bps::plugin::verbs {

// Returns the limit in bytes, or the largest uint64_t if the process has no limit.
uint64_t memlockLimit();
// Fails if the registered bytes plus `moreBytes` exceed the limit. The failure says how many bytes are needed.
Status checkMemlock(uint64_t limitBytes, uint64_t registeredBytes, uint64_t moreBytes);

}  // namespace bps::plugin::verbs
