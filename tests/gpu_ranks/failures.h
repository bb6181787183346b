#pragma once
#include <cstddef>

namespace bps::test {

// bps-run -n 2 -m 2 starts this test with the fake CUDA driver and the fake NCCL. The test provokes
// failures in calls of `bytes` bytes that local GPU groups carry out. Some ranks ask for errors,
// and the others do not. The test checks that no call gives a wrong sum, that no rank blocks
// forever, and that every rank receives the reason.
void failures(size_t bytes);

// bps-run -n 1 -m 2 starts this test. NCCL waits for a rank that never joins, and the call must
// succeed nevertheless.
void missingRank(size_t bytes);

}  // namespace bps::test
