// A rank that all-reduces without end. Usage: steady_ranks BYTES, in the environment of bpsCommInitFromEnv.
//
// The calls are in place, one after the other; between two calls the rank checks the result and writes the next
// contribution. Rank 0 prints one line for each call: its number and the seconds it took. A wrong sum or a failed call
// ends the process with status 1.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bps/bps.h"

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::printf("%s: %s\n", what, bpsGetLastError(nullptr));
  std::exit(1);
}

// Differs from call to call and from element to element, so that data at a wrong place or of a wrong call is seen.
uint32_t base(uint64_t call, size_t i) { return static_cast<uint32_t>(call * 7919 + i * 2654435761U); }

}  // namespace

int main(int argc, char** argv) {
  const size_t count = argc == 2 ? std::strtoull(argv[1], nullptr, 10) / sizeof(uint32_t) : 0;
  if (count == 0) {
    std::puts("usage: steady_ranks BYTES");
    return 2;
  }
  bpsComm_t comm = nullptr;
  int rank = 0, ranks = 0;
  require(bpsCommInitFromEnv(&comm) == bpsSuccess, "start");
  require(bpsCommUserRank(comm, &rank) == bpsSuccess && bpsCommCount(comm, &ranks) == bpsSuccess, "rank");
  const auto weight = static_cast<uint32_t>(rank + 1), sum = static_cast<uint32_t>(ranks * (ranks + 1) / 2);
  std::vector<uint32_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = weight * base(0, i);
  for (uint64_t call = 0;; ++call) {
    const auto start = std::chrono::steady_clock::now();
    require(bpsAllReduce(values.data(), values.data(), count, bpsUint32, bpsSum, comm, nullptr) == bpsSuccess, "call");
    require(bpsHostStreamSynchronize(nullptr) == bpsSuccess, "call");
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    for (size_t i = 0; i < count; ++i) {
      if (values[i] != sum * base(call, i)) {
        std::printf("wrong sum at %zu in call %llu\n", i, static_cast<unsigned long long>(call));
        return 1;
      }
      values[i] = weight * base(call + 1, i);
    }
    if (rank == 0) std::printf("%llu %.6f\n", static_cast<unsigned long long>(call), took.count());
    std::fflush(stdout);
  }
}
