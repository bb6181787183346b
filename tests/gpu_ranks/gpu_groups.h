#pragma once
#include <cstddef>

namespace bps::test {

// Started by bps-run with -m 2: machines of two ranks, each on the next GPU. Tests calls of `bytes` and their errors:
// ranks that call something else, ranks with other memory, a rank that dies.
void gpuGroups(size_t bytes);

}  // namespace bps::test
