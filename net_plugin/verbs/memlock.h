// RLIMIT_MEMLOCK: how much memory this process may have registered with devices, asked before they are, because what
// the kernel says is only that there is no memory.
#pragma once
#include <cstdint>

#include "src/base/status.h"

namespace bps::plugin::verbs {

// The limit in bytes; the largest number where none holds for this process.
uint64_t memlockLimit();
// Whether `moreBytes` fit in beside what is registered; the failure says the number that is needed. Pure.
Status checkMemlock(uint64_t limitBytes, uint64_t registeredBytes, uint64_t moreBytes);

}  // namespace bps::plugin::verbs
