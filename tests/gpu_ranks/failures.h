#pragma once
#include <cstddef>

namespace bps::test {

// Started by bps-run -n 2 -m 2, with the doubles of CUDA and NCCL: what fails in calls of so many bytes that teams of
// GPUs carry out, on ranks that ask for errors and on ranks that do not. No call ends well with a wrong sum, nobody
// waits for ever, and all hear the reason.
void failures(size_t bytes);

// The same with -n 1 -m 2: NCCL waits for a rank that does not come.
void missingRank(size_t bytes);

}  // namespace bps::test
