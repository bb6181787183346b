// Benchmarks of cpu_reduce. Each benchmark alternates runs of bps and of a reference, so that both
// see the same machine load. A benchmark reports the lower decile of the times of bps and
// of the reference, because other processes can only add time. The benchmark also reports the
// quartiles of the ratios of adjacent runs, because a change of the load shifts these ratios little
// (see perf/cpu_reduce.md). Runs with one thread are timed by CPU time, runs with several threads
// by wall time.
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
#include "perf/bench_cpu_reduce/baselines.h"

namespace bps::perf {
namespace {

constexpr size_t kMost = size_t{64} << 20;
constexpr size_t kMostSources = 8;
constexpr size_t kMaxCachedBytes = size_t{4} << 20;  // larger results use non-temporal stores

// Returns memory for one dst and eight sources. All pages have been touched. The contents are small
// numbers in every floating-point type.
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
  bool stream() const { return bytes > kMaxCachedBytes; }
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

// Returns the quantile below which the fraction `part` of the values lies.
double quantile(std::vector<double> values, double part) {
  auto at = values.begin() + static_cast<ptrdiff_t>(part * static_cast<double>(values.size()));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// Runs `ours` and `reference` alternately, and alternates which of the two runs first. The counters
// `consumed` and `reference` are rates in B/s. The counter `ratio` is the median of our rate
// divided by the reference's rate; `low` and `high` are the quartiles of this ratio.
void compare(benchmark::State& state, const Case& c, const std::function<void()>& ours,
             const std::function<void()>& reference) {
  ours(), reference();
  size_t repeats = std::clamp<size_t>(static_cast<size_t>(2e-4 / seconds(ours, 3, c.threads)), 1, 1000);
  std::vector<double> ourTimes, referenceTimes;
  for (auto _ : state) {
    const bool first = ourTimes.size() % 2 == 0;
    if (first) ourTimes.push_back(seconds(ours, repeats, c.threads));
    referenceTimes.push_back(seconds(reference, repeats, c.threads));
    if (!first) ourTimes.push_back(seconds(ours, repeats, c.threads));
    state.SetIterationTime(ourTimes.back());
  }
  double bytesConsumed = static_cast<double>(c.bytes * c.nSources);
  std::vector<double> ratios;
  for (size_t i = 0; i < ourTimes.size(); i++) ratios.push_back(referenceTimes[i] / ourTimes[i]);
  state.counters["consumed"] = bytesConsumed / quantile(ourTimes, 0.1);
  state.counters["reference"] = bytesConsumed / quantile(referenceTimes, 0.1);
  state.counters["ratio"] = quantile(ratios, 0.5);
  state.counters["low"] = quantile(ratios, 0.25);
  state.counters["high"] = quantile(ratios, 0.75);
}

// `sources` must outlive the result.
ReduceArgs argsOf(const Case& c, const std::vector<const void*>& sources, void* dst, bool rereadSoon) {
  return {.dst = dst,
          .sources = sources,
          .count = c.bytes / elementBytes(c.type),
          .type = c.type,
          .threads = c.threads,
          .rereadSoon = rereadSoon};
}

void runReduce(const Case& c, const std::vector<const void*>& sources, void* dst) {
  reduce(argsOf(c, sources, dst, true));
}

void memoryBound(benchmark::State& state, const Case& c) {
  std::vector<const void*> sources = c.sources();
  auto reference = [&] {
    if (c.threads == 1) readAndWrite(arena(), sources, c.bytes, c.stream());
    else readAndWriteThreads(arena(), sources, c.bytes, c.stream(), c.threads);
  };
  const ReduceArgs args = argsOf(c, sources, arena(), !c.stream());
  compare(
      state, c, [&] { reduce(args); }, reference);
}

// Compares one pass over m sources with m - 1 passes over two sources each. A library without a
// multi-source kernel needs these m - 1 passes.
void pairwise(benchmark::State& state, const Case& c) {
  std::vector<const void*> sources = c.sources();
  Case two = c;
  two.nSources = 2;
  auto reference = [&] {
    runReduce(two, {sources[0], sources[1]}, arena());
    for (size_t i = 2; i < sources.size(); i++) runReduce(two, {arena(), sources[i]}, arena());
  };
  const ReduceArgs args = argsOf(c, sources, arena(), !c.stream());
  compare(
      state, c, [&] { reduce(args); }, reference);
}

// A function that computes dst += src by another implementation. The function returns false if that
// implementation is not installed.
using Baseline = std::function<bool(void* dst, const void* src, size_t count)>;

// Fills dst with zeros, so that repeated additions never reach infinity. Returns false and skips
// the benchmark if `other` is not installed.
bool prepared(benchmark::State& state, const Case& c, const Baseline& other) {
  std::memset(arena(), 0, c.bytes);
  bool there = other(arena(), arena() + kMost, 64);
  if (!there) state.SkipWithError("not installed");
  return there;
}

// Compares dst += src by bps with dst += src by another implementation.
void benchBaseline(benchmark::State& state, const Case& c, const Baseline& other) {
  void* dst = arena();
  const void* src = arena() + kMost;
  size_t count = c.bytes / elementBytes(c.type);
  if (!prepared(state, c, other)) return;
  const std::vector<const void*> sources = {dst, src};
  const ReduceArgs args = argsOf(c, sources, dst, true);
  compare(
      state, c, [&] { reduce(args); }, [&] { other(dst, src, count); });
}

// Measures the highest ratio that any code could reach in benchBaseline(): the memory bound of dst
// += src, compared with the baseline.
void benchMemoryLimit(benchmark::State& state, const Case& c, const Baseline& other) {
  void* dst = arena();
  const void* src = arena() + kMost;
  size_t count = c.bytes / elementBytes(c.type);
  if (!prepared(state, c, other)) return;
  const std::vector<const void*> sources = {dst, src};
  compare(
      state, c, [&] { readAndWrite(dst, sources, c.bytes, false); }, [&] { other(dst, src, count); });
}

// Compares one pass over all sources with a copy and m - 1 passes of another implementation.
void baselinePasses(benchmark::State& state, const Case& c, const Baseline& other) {
  const std::vector<const void*> sources = c.sources();
  size_t count = c.bytes / elementBytes(c.type);
  auto reference = [&] {
    std::memcpy(arena(), sources[0], c.bytes);
    for (size_t i = 1; i < sources.size(); i++) other(arena(), sources[i], count);
  };
  const ReduceArgs args = argsOf(c, sources, arena(), !c.stream());
  compare(
      state, c, [&] { reduce(args); }, reference);
}

constexpr int kManyIterations = 301, kSomeIterations = 61, kFewIterations = 15;

void add(const std::string& name, const std::function<void(benchmark::State&)>& body, int iterations) {
  benchmark::RegisterBenchmark(name.c_str(), body)
      ->UseManualTime()
      ->Iterations(iterations)
      ->Unit(benchmark::kMicrosecond);
}

int iterations(const Case& c) { return c.stream() ? kSomeIterations : kManyIterations; }

void addBaseline(const std::string& name, DataType type, const Baseline& other) {
  for (size_t bytes : {size_t{64} << 10, size_t{1} << 20, kMost}) {
    Case c{type, 2, bytes, 1};
    const int turns = name == "software" && c.stream() ? kFewIterations : iterations(c);
    add(
        name + "/" + c.name(), [c, other](benchmark::State& state) { benchBaseline(state, c, other); }, turns);
    add(
        "limit-" + name + "/" + c.name(), [c, other](benchmark::State& state) { benchMemoryLimit(state, c, other); },
        turns);
    for (size_t m : {4U, 8U}) {
      if (type == DataType::kFloat32 || name == "software") continue;
      Case many{type, m, bytes, 1};
      add(
          name + "-passes/" + many.name(),
          [many, other](benchmark::State& state) { baselinePasses(state, many, other); },
          c.stream() ? kFewIterations : iterations(c));
    }
  }
}

// Compares a loop with itself. The result shows how far the ratio of equal code can be from 1.
void addSelfComparison() {
  for (size_t bytes : {size_t{64} << 10, size_t{1} << 20, kMost}) {
    Case c{DataType::kFloat32, 2, bytes, 1};
    auto plain = [c] {
      plainFloat(reinterpret_cast<float*>(arena()), reinterpret_cast<const float*>(arena() + kMost), c.bytes / 4);
    };
    add(
        "itself/" + c.name(), [c, plain](benchmark::State& state) { compare(state, c, plain, plain); }, iterations(c));
  }
}

void addMemoryBounds(DataType type) {
  for (size_t m : {2U, 4U, 8U}) {
    for (Case c : {Case{type, m, size_t{64} << 10, 1}, Case{type, m, size_t{1} << 20, 1}, Case{type, m, kMost, 1},
                   Case{type, m, kMost, 2}}) {
      add(
          "memory/" + c.name(), [c](benchmark::State& state) { memoryBound(state, c); }, iterations(c));
    }
  }
}

void addPairwise(DataType type) {
  for (size_t m : {4U, 8U}) {
    Case c{type, m, kMost, 1};
    add(
        "pairwise/" + c.name(), [c](benchmark::State& state) { pairwise(state, c); }, iterations(c));
  }
}

bool runPlainFloat(void* dst, const void* src, size_t count) {
  plainFloat(static_cast<float*>(dst), static_cast<const float*>(src), count);
  return true;
}

bool runPlainHalf(void* dst, const void* src, size_t count) {
  plainHalf(dst, src, count);
  return true;
}

bool runPlainBfloat16(void* dst, const void* src, size_t count) {
  plainBfloat16(dst, src, count);
  return true;
}

bool runSoftwareHalf(void* dst, const void* src, size_t count) {
  softwareHalf(dst, src, count);
  return true;
}

bool runOpenMpi(void* dst, const void* src, size_t count) {
  return openMpiFloat(static_cast<float*>(dst), static_cast<const float*>(src), count);
}

void addAll() {
  for (DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8e4m3}) {
    addMemoryBounds(type);
  }
  for (DataType type : {DataType::kFloat32, DataType::kBfloat16}) addPairwise(type);
  addSelfComparison();
  addBaseline("plain", DataType::kFloat32, runPlainFloat);
  addBaseline("openmpi", DataType::kFloat32, runOpenMpi);
  addBaseline("plain", DataType::kFloat16, runPlainHalf);
  addBaseline("software", DataType::kFloat16, runSoftwareHalf);
  addBaseline("plain", DataType::kBfloat16, runPlainBfloat16);
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
