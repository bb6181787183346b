#pragma once
#include <cstddef>

namespace bps::test {

// Started by bps-run with -m 2: machines of two ranks, each on the next GPU. Calls of so many bytes, and what goes
// wrong with such calls: other calls on other ranks, memory of other kinds, a rank that dies.
void gpuGroups(size_t bytes);

}  // namespace bps::test
