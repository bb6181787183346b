#include "cpu_reduce/reduce.h"

#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <vector>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "cpu_reduce/dispatch.h"
#include "cpu_reduce/float_environment.h"

namespace bps {
namespace {

// Builds with the thread sanitizer do not use OpenMP. The OpenMP runtime library is not built with
// this sanitizer, which would therefore report false races.
#if defined(__SANITIZE_THREAD__) || !defined(_OPENMP)
constexpr bool kOpenMp = false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kOpenMp = false;
#else
constexpr bool kOpenMp = true;
#endif
#else
constexpr bool kOpenMp = true;
#endif

// The least number of bytes that a thread must read. For fewer bytes, waking the thread costs more
// time than it saves; see perf/cpu_reduce.md.
constexpr size_t kMinBytesPerThread = size_t{1} << 20;
[[maybe_unused]] constexpr size_t kPage = 4096;

bool isInteger(DataType type) { return type <= DataType::kUint64; }

// Returns the size of the private cache of a core. The size of the shared last-level cache is not
// used. Non-temporal stores are faster even for buffers that fit into the shared cache, because
// these stores do not read dst and do not displace other data (perf/cpu_reduce.md). On AMD CPUs,
// glibc 2.36 reports the last-level cache size of a whole package.
size_t cacheBytes() {
  static const long bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
  return bytes > 0 ? static_cast<size_t>(bytes) : size_t{1} << 20;
}

// Returns whether dst is also a source. If dst is a source, its cache lines are already in the
// cache, and non-temporal stores would only cost more.
bool isSource(const ReduceArgs& args) {
  return std::find(args.sources.begin(), args.sources.end(), args.dst) != args.sources.end();
}

bool shouldStream(const ReduceArgs& args) {
  return !args.rereadSoon && args.count * elementBytes(args.type) > cacheBytes() && !isSource(args);
}

void foldPart(cpu::Kernel kernel, const cpu::FoldArgs& part) {
  if (part.count == 0) return;
  cpu::FloatEnvironment environment;
  kernel(part);
}

// Gives each thread whole pages of dst. Calls of the same size give a thread the same pages. Linux
// places a page on the NUMA node of the thread that first touches it, so later calls access local
// memory. OpenMP may start fewer threads than requested. This function neither reads nor changes
// the OpenMP settings of the process.
void foldParallel([[maybe_unused]] cpu::Kernel kernel, [[maybe_unused]] const cpu::FoldArgs& fold,
                  [[maybe_unused]] size_t elementSize, [[maybe_unused]] int threads) {
#ifdef _OPENMP
#pragma omp parallel num_threads(threads)
  {
    size_t team = static_cast<size_t>(omp_get_num_threads());
    size_t page = kPage / elementSize;
    size_t share = ((fold.count + team - 1) / team + page - 1) / page * page;
    cpu::FoldArgs part = fold;
    part.begin = std::min(static_cast<size_t>(omp_get_thread_num()) * share, fold.count);
    part.count = std::min(share, fold.count - part.begin);
    foldPart(kernel, part);
  }
#endif
}

void run(const ReduceArgs& args, const ScalarBits* scalars) {
  cpu::FoldArgs fold{.dst = args.dst,
                     .sources = args.sources.data(),
                     .nSources = args.sources.size(),
                     .begin = 0,
                     .count = args.count,
                     .scalars = scalars,
                     .divisor = args.divisor,
                     .divisors = args.divisors.empty() ? nullptr : args.divisors.data(),
                     .stream = shouldStream(args),
                     .cacheBytes = cacheBytes()};
  // Integer divisions use the scalar kernels, because most CPUs have no vector instruction for
  // them.
  const bool divides = args.divisor != 1 || !args.divisors.empty();
  const cpu::KernelTable& table = divides && isInteger(args.type) ? cpu::scalarKernels() : cpu::currentKernels();
  cpu::Kernel kernel = table.kernels[static_cast<size_t>(args.type)][static_cast<size_t>(args.op)];
  size_t size = elementBytes(args.type);
  size_t useful = std::max<size_t>(1, args.count * size * args.sources.size() / kMinBytesPerThread);
  int threads = static_cast<int>(std::min(useful, static_cast<size_t>(std::max(args.threads, 1))));
  if (kOpenMp && threads > 1) foldParallel(kernel, fold, size, threads);
  else foldPart(kernel, fold);
}

}  // namespace

std::string_view dataTypeName(DataType type) {
  static constexpr std::string_view kNames[kDataTypes] = {"int8", "uint8", "int32",  "uint32",   "int64",  "uint64",
                                                          "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"};
  return kNames[static_cast<size_t>(type)];
}

std::string_view foldOpName(FoldOp op) {
  static constexpr std::string_view kNames[] = {"sum", "prod", "max", "min"};
  return kNames[static_cast<size_t>(op)];
}

void reduce(const ReduceArgs& args) {
  assert(!args.sources.empty() && args.divisor != 0);
  assert(args.scalars.empty() || args.scalars.size() == args.sources.size());
  assert(args.divisors.empty() || args.divisors.size() == args.sources.size());
  if (args.scalars.empty()) return run(args, nullptr);
  constexpr size_t kOnStack = 64;
  ScalarBits few[kOnStack];
  std::vector<ScalarBits> many(args.scalars.size() > kOnStack ? args.scalars.size() : 0);
  ScalarBits* widened = many.empty() ? few : many.data();
  for (size_t i = 0; i < args.scalars.size(); i++) widened[i] = cpu::widenedScalar(args.type, args.scalars[i]);
  run(args, widened);
}

std::string_view reduceTarget() { return cpu::currentKernels().name; }

}  // namespace bps
