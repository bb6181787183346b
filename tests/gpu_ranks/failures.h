#pragma once
#include <cstddef>

namespace bps::test {

// Started by bps-run -n 2 -m 2 with the fake CUDA driver and the fake NCCL. Tests failures in calls of `bytes` that
// local GPU groups carry out, on ranks that ask for errors and on ranks that do not. No call gives a wrong sum, no rank
// blocks forever, and every rank receives the reason.
void failures(size_t bytes);

// Started by bps-run -n 1 -m 2: NCCL waits for a rank that never joins.
void missingRank(size_t bytes);

}  // namespace bps::test
