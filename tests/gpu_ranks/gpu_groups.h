#pragma once
#include <cstddef>

namespace bps::test {

// bps-run starts this test with -m 2, which makes machines of two ranks. The ranks of a machine use
// successive GPUs. The test makes calls of `bytes` bytes and provokes errors: a rank that makes a
// different call, a rank with a buffer in host memory, and a rank that dies.
void gpuGroups(size_t bytes);

}  // namespace bps::test
