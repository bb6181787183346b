// A rank that loses other ranks and goes on. Usage: shrink_ranks LIST..., in the environment of bpsCommInitFromEnv.
//
// The rank all-reduces until a call fails. Then it shrinks the communicator without the ranks of the first LIST, such
// as "0,2", and all-reduces again, and so on. After the last LIST it makes 100 calls. Every result is checked. It
// prints "phase 0: rank 1 of 4" after the first call of each phase, and "100 right calls" at the end.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "bps/bps.h"

namespace {

constexpr size_t kCounts[] = {1, 300, 20'000, 1 << 20};

[[noreturn]] void quit(const char* what) {
  std::printf("%s: %s\n", what, bpsGetLastError(nullptr));
  std::exit(1);
}

void require(bpsResult_t result, const char* what) {
  if (result != bpsSuccess) quit(what);
}

class Rank {
 public:
  Rank() : values_(kCounts[3]) { require(bpsCommInitFromEnv(&comm_), "start"); }

  void runUntilFailure() {
    for (size_t i = 0; call(i); ++i)
      if (i == 0) announce();
    std::printf("failure: %s\n", bpsGetLastError(comm_));
  }
  void shrink(const std::string& list) {
    std::vector<int> excluded;
    std::stringstream text(list);
    for (std::string rank; std::getline(text, rank, ',');) excluded.push_back(std::stoi(rank));
    bpsComm_t smaller = nullptr;
    const auto start = std::chrono::steady_clock::now();
    require(
        bpsCommShrink(comm_, excluded.data(), static_cast<int>(excluded.size()), &smaller, nullptr, BPS_SHRINK_ABORT),
        "bpsCommShrink");
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    std::printf("shrunken in %.0f ms\n", took.count());
    require(bpsCommAbort(comm_), "bpsCommAbort");
    comm_ = smaller;
    ++phase_;
  }
  void finish() {
    for (size_t i = 0; i < 100; ++i) {
      if (!call(i)) quit("a call after the shrink");
      if (i == 0) announce();
    }
    require(bpsCommDestroy(comm_), "bpsCommDestroy");
    std::puts("100 right calls");
  }

 private:
  void announce() const {
    int rank = 0, nRanks = 0;
    require(bpsCommUserRank(comm_, &rank), "bpsCommUserRank");
    require(bpsCommCount(comm_, &nRanks), "bpsCommCount");
    std::printf("phase %d: rank %d of %d\n", phase_, rank, nRanks);
    std::fflush(stdout);
  }
  // Returns false if the call fails. Ends the process if the sum is wrong.
  bool call(size_t number) {
    int rank = 0, n = 0;
    if (bpsCommUserRank(comm_, &rank) != bpsSuccess || bpsCommCount(comm_, &n) != bpsSuccess) return false;
    const size_t count = kCounts[number % 4];
    for (size_t i = 0; i < count; ++i) values_[i] = (rank + 1) * static_cast<int>(i % 7 + number % 5);
    if (bpsAllReduce(values_.data(), values_.data(), count, bpsInt32, bpsSum, comm_, nullptr) != bpsSuccess)
      return false;
    if (bpsHostStreamSynchronize(nullptr) != bpsSuccess) return false;
    for (size_t i = 0; i < count; ++i) {
      if (values_[i] == n * (n + 1) / 2 * static_cast<int>(i % 7 + number % 5)) continue;
      std::printf("wrong sum %d at %zu in call %zu of %zu elements\n", values_[i], i, number, count);
      std::exit(1);
    }
    return true;
  }

  bpsComm_t comm_ = nullptr;
  int phase_ = 0;
  std::vector<int> values_;
};

}  // namespace

int main(int argc, char** argv) {
  Rank rank;
  for (int i = 1; i < argc; ++i) {
    rank.runUntilFailure();
    rank.shrink(argv[i]);
  }
  rank.finish();
  return 0;
}
