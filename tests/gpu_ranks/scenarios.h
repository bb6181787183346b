// Scenarios that have blocked, or would block, programs with a real driver. Two ranks, each a machine. Every scenario
// checks its sums and prints nothing if they are right. tests/gpu/run.sh limits their time.
#pragma once
#include <cstddef>
#include <string>

namespace bps::test {

// Runs the scenario of this name with calls of `bytes` bytes. Returns false if there is no such scenario.
//   first-launch  a kernel is launched for the first time behind an all-reduce whose peer is late
//   free          device memory is freed behind an all-reduce whose peer is late
//   capture       a call on a captured stream is refused by bps, and the communicator still works
//   fork          a child process of a rank exits, and the communicator still works
//   groups        NCCL groups of many all-reduces
//   non-blocking  an NCCL communicator with blocking = 0
bool runScenario(const std::string& name, size_t bytes);

}  // namespace bps::test
