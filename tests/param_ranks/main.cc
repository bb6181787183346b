// A rank that trains asynchronously. Usage: param_ranks COUNT PUSHES PAUSE, in the environment of bpsCommInitFromEnv.
//
// Each push adds 1024^rank to every element of an int64 parameter of COUNT elements, so an element tells how often each
// rank has pushed. PAUSE is the time between pushes in microseconds. After PUSHES pushes and a barrier
// the rank pulls, and prints a line for each rank: "rank R: LEAST to MOST pushes in N intervals", and the
// intervals of elements with a different number of pushes.
#include <bps/params.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

void require(bpsResult_t result, bpsComm_t comm, const char* what) {
  if (result == bpsSuccess) return;
  std::printf("%s: %s: %s\n", what, bpsGetErrorString(result), bpsGetLastError(comm));
  std::fflush(stdout);
  std::_Exit(1);
}

int64_t unit(int rank) { return int64_t{1} << (10 * rank); }
int64_t pushesOf(int64_t value, int rank) { return (value >> (10 * rank)) & 1023; }

void print(const std::vector<int64_t>& values, int rank) {
  int64_t least = 1024, most = -1, before = -1;
  std::string intervals;
  int count = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t pushes = pushesOf(values[i], rank);
    least = std::min(least, pushes);
    most = std::max(most, pushes);
    if (pushes == before) continue;
    before = pushes;
    if (++count <= 20) intervals += " " + std::to_string(i) + ":" + std::to_string(pushes);
  }
  std::printf("rank %d: %lld to %lld pushes in %d intervals%s\n", rank, static_cast<long long>(least),
              static_cast<long long>(most), count, intervals.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::puts("usage: param_ranks COUNT PUSHES PAUSE");
    return 2;
  }
  const size_t count = std::strtoull(argv[1], nullptr, 10);
  const int pushes = std::atoi(argv[2]);
  const std::chrono::microseconds pause(std::atoi(argv[3]));
  bpsComm_t comm = nullptr;
  int rank = 0, ranks = 0;
  require(bpsCommInitFromEnv(&comm), nullptr, "start");
  require(bpsCommUserRank(comm, &rank), comm, "rank");
  require(bpsCommCount(comm, &ranks), comm, "count");
  std::vector<int64_t> change(count, unit(rank)), values(count, rank == 0 ? 0 : -1);
  require(bpsParamInit(comm, 1, values.data(), count, bpsInt64), comm, "init");
  std::puts("trains");
  std::fflush(stdout);
  const auto start = Clock::now();
  auto longest = std::chrono::duration<double>(0);
  for (int push = 1; push <= pushes; ++push) {
    const auto begun = Clock::now();
    require(bpsParamPushPull(comm, 1, change.data(), values.data(), count, bpsInt64, nullptr), comm, "push");
    require(bpsHostStreamSynchronize(nullptr), comm, "push");
    longest = std::max(longest, std::chrono::duration<double>(Clock::now() - begun));
    for (const int64_t value : values)
      if (pushesOf(value, rank) != push) {
        std::printf("push %d: a value contains %lld pushes of this rank\n", push,
                    static_cast<long long>(pushesOf(value, rank)));
        return 1;
      }
    std::this_thread::sleep_for(pause);
  }
  const std::chrono::duration<double> took = Clock::now() - start;
  std::printf("pushes/s: %.1f, longest: %.3f s\n", pushes / took.count(), longest.count());
  std::fflush(stdout);
  require(bpsParamBarrier(comm), comm, "barrier");
  require(bpsParamPull(comm, 1, values.data(), count, bpsInt64, nullptr), comm, "pull");
  require(bpsHostStreamSynchronize(nullptr), comm, "pull");
  for (int other = 0; other < ranks; ++other) print(values, other);
  std::fflush(stdout);
  bpsCommDestroy(comm);  // fails if a rank was lost
  std::puts("done");
  return 0;
}
