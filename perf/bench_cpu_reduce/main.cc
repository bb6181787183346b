// Benchmarks of cpu_reduce. Each one runs bps and its reference in turn, so that both see the same machine, and reports
// the lower decile of both (another process can only add time) and the median of the ratios of neighbours (which a
// change of the machine's load shifts little); see perf/cpu_reduce.md. The clock of one thread is that thread's CPU
// time, of more it is the wall's.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cpu_reduce/reduce.h"
#include "perf/bench_cpu_reduce/rivals.h"

namespace bps::perf {
namespace {

constexpr size_t kMost = size_t{64} << 20;
constexpr size_t kMostSources = 8;
constexpr size_t kCached = size_t{4} << 20;  // larger results are streamed past the cache

// One dst and eight sources, touched once; their contents are ones, or small floats in any of the types.
char* arena() {
  static char* memory = [] {
    char* fresh = static_cast<char*>(std::aligned_alloc(size_t{2} << 20, (kMostSources + 1) * kMost));
    std::memset(fresh, 0x2a, (kMostSources + 1) * kMost);
    return fresh;
  }();
  return memory;
}

struct Case {
  DataType type;
  size_t nSources;
  size_t bytes;  // of each source
  int threads;

  std::string name() const {
    std::string size = bytes >= (1U << 20) ? std::to_string(bytes >> 20) + "MiB" : std::to_string(bytes >> 10) + "KiB";
    return std::string(dataTypeName(type)) + "/m" + std::to_string(nSources) + "/" + size + "/t" +
           std::to_string(threads);
  }
  bool stream() const { return bytes > kCached; }
  std::vector<const void*> sources() const {
    std::vector<const void*> all;
    for (size_t i = 0; i < nSources; i++) all.push_back(arena() + (i + 1) * kMost);
    return all;
  }
};

double now(int threads) {
  timespec time{};
  clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double seconds(const std::function<void()>& work, size_t repeats, int threads) {
  double start = now(threads);
  for (size_t i = 0; i < repeats; i++) work();
  return (now(threads) - start) / static_cast<double>(repeats);
}

// The value that the given part of them is below.
double quantile(std::vector<double> values, double part) {
  auto at = values.begin() + static_cast<ptrdiff_t>(part * static_cast<double>(values.size()));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// Runs `ours` and `reference` in turn; counters: consumed (B/s), reference (B/s), ratio (ours to the reference).
void compare(benchmark::State& state, const Case& c, const std::function<void()>& ours,
             const std::function<void()>& reference) {
  ours(), reference();
  size_t repeats = std::clamp<size_t>(static_cast<size_t>(2e-4 / seconds(ours, 3, c.threads)), 1, 1000);
  std::vector<double> ourTimes, referenceTimes;
  for (auto _ : state) {
    ourTimes.push_back(seconds(ours, repeats, c.threads));
    referenceTimes.push_back(seconds(reference, repeats, c.threads));
    state.SetIterationTime(ourTimes.back());
  }
  double bytesConsumed = static_cast<double>(c.bytes * c.nSources);
  std::vector<double> ratios;
  for (size_t i = 0; i < ourTimes.size(); i++) ratios.push_back(referenceTimes[i] / ourTimes[i]);
  state.counters["consumed"] = bytesConsumed / quantile(ourTimes, 0.1);
  state.counters["reference"] = bytesConsumed / quantile(referenceTimes, 0.1);
  state.counters["ratio"] = quantile(ratios, 0.5);
}

void runReduce(const Case& c, const std::vector<const void*>& sources, void* dst, bool rereadSoon) {
  reduce({.dst = dst,
          .sources = sources,
          .count = c.bytes / elementBytes(c.type),
          .type = c.type,
          .threads = c.threads,
          .rereadSoon = rereadSoon});
}

void memoryBound(benchmark::State& state, const Case& c) {
  std::vector<const void*> sources = c.sources();
  auto reference = [&] {
    if (c.threads == 1) readAndWrite(arena(), sources, c.bytes, c.stream());
    else readAndWriteThreads(arena(), sources, c.bytes, c.stream(), c.threads);
  };
  compare(
      state, c, [&] { runReduce(c, sources, arena(), !c.stream()); }, reference);
}

// m - 1 passes over two sources, as a library without a kernel of many sources would do.
void pairwise(benchmark::State& state, const Case& c) {
  std::vector<const void*> sources = c.sources();
  Case two = c;
  two.nSources = 2;
  auto reference = [&] {
    runReduce(two, {sources[0], sources[1]}, arena(), true);
    for (size_t i = 2; i < sources.size(); i++) runReduce(two, {arena(), sources[i]}, arena(), true);
  };
  compare(
      state, c, [&] { runReduce(c, sources, arena(), !c.stream()); }, reference);
}

using Rival = std::function<bool(void* dst, const void* src, size_t count)>;

// dst += src against another implementation of the same.
void rival(benchmark::State& state, const Case& c, const Rival& other) {
  void* dst = arena();
  const void* src = arena() + kMost;
  size_t count = c.bytes / elementBytes(c.type);
  if (!other(dst, src, count)) return state.SkipWithError("not installed");
  std::memset(dst, 0, c.bytes);
  const std::vector<const void*> sources = {dst, src};
  compare(
      state, c, [&] { runReduce(c, sources, dst, true); }, [&] { other(dst, src, count); });
}

void add(const std::string& name, const std::function<void(benchmark::State&)>& body) {
  benchmark::RegisterBenchmark(name.c_str(), body)->UseManualTime()->Iterations(61)->Unit(benchmark::kMicrosecond);
}

void addRival(const std::string& name, DataType type, const Rival& other) {
  for (size_t bytes : {size_t{64} << 10, size_t{1} << 20, kMost}) {
    Case c{type, 2, bytes, 1};
    add(name + "/" + c.name(), [c, other](benchmark::State& state) { rival(state, c, other); });
  }
}

void addMemoryBounds(DataType type) {
  for (size_t m : {2U, 4U, 8U}) {
    for (Case c : {Case{type, m, size_t{64} << 10, 1}, Case{type, m, size_t{1} << 20, 1}, Case{type, m, kMost, 1},
                   Case{type, m, kMost, 2}}) {
      add("memory/" + c.name(), [c](benchmark::State& state) { memoryBound(state, c); });
    }
  }
}

void addPairwise(DataType type) {
  for (size_t m : {4U, 8U}) {
    Case c{type, m, kMost, 1};
    add("pairwise/" + c.name(), [c](benchmark::State& state) { pairwise(state, c); });
  }
}

bool againstPlainFloat(void* dst, const void* src, size_t count) {
  plainFloat(static_cast<float*>(dst), static_cast<const float*>(src), count);
  return true;
}

bool againstPlainHalf(void* dst, const void* src, size_t count) {
  plainHalf(dst, src, count);
  return true;
}

bool againstPlainBfloat16(void* dst, const void* src, size_t count) {
  plainBfloat16(dst, src, count);
  return true;
}

bool againstOpenMpi(void* dst, const void* src, size_t count) {
  return openMpiFloat(static_cast<float*>(dst), static_cast<const float*>(src), count);
}

void addAll() {
  for (DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8e4m3}) {
    addMemoryBounds(type);
  }
  for (DataType type : {DataType::kFloat32, DataType::kBfloat16}) addPairwise(type);
  addRival("plain", DataType::kFloat32, againstPlainFloat);
  addRival("openmpi", DataType::kFloat32, againstOpenMpi);
  addRival("plain", DataType::kFloat16, againstPlainHalf);
  addRival("plain", DataType::kBfloat16, againstPlainBfloat16);
}

}  // namespace
}  // namespace bps::perf

int main(int argc, char** argv) {
  benchmark::AddCustomContext("kernels", std::string(bps::reduceTarget()));
  bps::perf::addAll();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
