#include "perf/bench_cpu_reduce/baselines.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bit>
#include <cstdint>
#include <cstring>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "cpu_reduce/element.h"

namespace bps::perf {
namespace {

#if defined(__AVX512F__)
constexpr size_t kVector = 64;
#elif defined(__AVX__)
constexpr size_t kVector = 32;
#else
constexpr size_t kVector = 16;
#endif
typedef long long Vector __attribute__((vector_size(kVector), may_alias));  // NOLINT: an attribute of typedefs

// Loads a vector. The compiler may neither drop nor move this load.
Vector loaded(const char* from) {
  Vector value = *reinterpret_cast<const Vector*>(from);
#if defined(__x86_64__)
  __asm__ volatile("" : : "x"(value));
#else
  __asm__ volatile("" : : "w"(value));
#endif
  return value;
}

void streamed(char* to, Vector value) {
  Vector* at = reinterpret_cast<Vector*>(to);
#if defined(__clang__)
  __builtin_nontemporal_store(value, at);
#elif defined(__AVX512F__)
  __builtin_ia32_movntdq512(at, value);
#elif defined(__AVX__)
  __builtin_ia32_movntdq256(at, value);
#elif defined(__x86_64__)
  __builtin_ia32_movntdq(at, value);
#else
  *at = value;
#endif
}

// Reads 128 bytes of each source in turn. On the CPUs that were tried, this loop was fastest with
// 128 bytes.
template <bool kStream>
void copyLoop(char* dst, std::span<const void* const> sources, size_t begin, size_t end) {
  constexpr size_t kVectors = 128 / kVector;
  const char* from[16];  // a local copy, which stores to dst cannot change
  const size_t n = sources.size();
  for (size_t i = 0; i < n; i++) from[i] = static_cast<const char*>(sources[i]);
  for (size_t at = begin; at < end; at += 128) {
    Vector values[kVectors] = {};
    for (size_t i = 0; i < n; i++) {
      for (size_t v = 0; v < kVectors; v++) values[v] = loaded(from[i] + at + v * kVector);
    }
    for (size_t v = 0; v < kVectors; v++) {
      char* to = dst + at + v * kVector;
      if constexpr (kStream) streamed(to, values[v]);
      else *reinterpret_cast<Vector*>(to) = values[v];
    }
  }
}

void copyPart(void* dst, std::span<const void* const> sources, size_t begin, size_t end, bool stream) {
  if (stream) copyLoop<true>(static_cast<char*>(dst), sources, begin, end);
  else copyLoop<false>(static_cast<char*>(dst), sources, begin, end);
}

}  // namespace

void readAndWrite(void* dst, std::span<const void* const> sources, size_t bytes, bool stream) {
  copyPart(dst, sources, 0, bytes, stream);
}

#ifdef _OPENMP
void readAndWriteThreads(void* dst, std::span<const void* const> sources, size_t bytes, bool stream, int threads) {
#pragma omp parallel num_threads(threads)
  {
    size_t share = bytes / static_cast<size_t>(omp_get_num_threads()) / 4096 * 4096;
    size_t begin = static_cast<size_t>(omp_get_thread_num()) * share;
    bool last = omp_get_thread_num() + 1 == omp_get_num_threads();
    copyPart(dst, sources, begin, last ? bytes : begin + share, stream);
  }
}
#else
void readAndWriteThreads(void* dst, std::span<const void* const> sources, size_t bytes, bool stream, int) {
  readAndWrite(dst, sources, bytes, stream);
}
#endif

void plainFloat(float* dst, const float* src, size_t count) {
  for (size_t i = 0; i < count; i++) dst[i] += src[i];
}

#if defined(__FLT16_MAX__)
__extension__ typedef _Float16 Half;  // NOLINT: the compiler's own type is what a plain loop would use
void plainHalf(void* dst, const void* src, size_t count) {
  Half* a = static_cast<Half*>(dst);
  const Half* b = static_cast<const Half*>(src);
  for (size_t i = 0; i < count; i++) a[i] += b[i];
}
#else
void plainHalf(void* dst, const void* src, size_t count) {
  uint16_t* a = static_cast<uint16_t*>(dst);
  const uint16_t* b = static_cast<const uint16_t*>(src);
  for (size_t i = 0; i < count; i++) a[i] = cpu::Float16::round(cpu::Float16::widen(a[i]) + cpu::Float16::widen(b[i]));
}
#endif

void plainBfloat16(void* dst, const void* src, size_t count) {
  uint16_t* a = static_cast<uint16_t*>(dst);
  const uint16_t* b = static_cast<const uint16_t*>(src);
  for (size_t i = 0; i < count; i++) {
    a[i] = cpu::Bfloat16::round(cpu::Bfloat16::widen(a[i]) + cpu::Bfloat16::widen(b[i]));
  }
}

namespace {

float fromHalf(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half >> 15) << 31;
  int exponent = (half >> 10) & 31;
  uint32_t mantissa = half & 0x3ffU;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000U | (mantissa << 13));
  if (exponent == 0) {
    if (mantissa == 0) return std::bit_cast<float>(sign);
    for (exponent = 1; (mantissa & 0x400U) == 0; exponent--) mantissa <<= 1;
    mantissa &= 0x3ffU;
  }
  return std::bit_cast<float>(sign | (static_cast<uint32_t>(exponent + 112) << 23) | (mantissa << 13));
}

uint16_t toHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000U;
  const int exponent = static_cast<int>((bits >> 23) & 255) - 112;
  uint32_t mantissa = bits & 0x7fffffU;
  if (exponent == 143) return static_cast<uint16_t>(sign | (mantissa != 0 ? 0x7e00U : 0x7c00U));
  if (exponent >= 31) return static_cast<uint16_t>(sign | 0x7c00U);
  if (exponent < -10) return static_cast<uint16_t>(sign);
  int dropped = 13;
  uint32_t half = static_cast<uint32_t>(exponent) << 10;
  if (exponent <= 0) {
    mantissa |= 0x800000U;
    dropped = 14 - exponent;
    half = 0;
  }
  half |= mantissa >> dropped;
  const uint32_t rest = mantissa & ((1U << dropped) - 1);
  const uint32_t middle = 1U << (dropped - 1);
  if (rest > middle || (rest == middle && (half & 1) != 0)) half++;
  return static_cast<uint16_t>(sign | half);
}

}  // namespace

void softwareHalf(void* dst, const void* src, size_t count) {
  uint16_t* a = static_cast<uint16_t*>(dst);
  const uint16_t* b = static_cast<const uint16_t*>(src);
  for (size_t i = 0; i < count; i++) a[i] = toHalf(fromHalf(a[i]) + fromHalf(b[i]));
}

namespace {

template <class Function>
Function symbol(void* library, const char* name) {
  Function function = nullptr;
  void* address = dlsym(library, name);
  std::memcpy(&function, &address, sizeof(function));
  return function;
}

// MPI_Init ends the process if it fails, so a child process tries MPI_Init first.
void* startOpenMpi() {
  void* library = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return nullptr;
  auto init = symbol<int (*)(int*, char***)>(library, "MPI_Init");
  pid_t child = fork();
  if (child == 0) {
    for (int fd : {1, 2}) close(fd);
    _exit(init(nullptr, nullptr));
  }
  int status = 1;
  waitpid(child, &status, 0);
  return status == 0 && init(nullptr, nullptr) == 0 ? library : nullptr;
}

}  // namespace

bool openMpiFloat(float* dst, const float* src, size_t count) {
  using ReduceLocal = int (*)(const void*, void*, int, void*, void*);
  static void* const library = startOpenMpi();
  if (library == nullptr) return false;
  static const ReduceLocal reduceLocal = symbol<ReduceLocal>(library, "MPI_Reduce_local");
  static void* const type = dlsym(library, "ompi_mpi_float");
  static void* const sum = dlsym(library, "ompi_mpi_op_sum");
  return reduceLocal(src, dst, static_cast<int>(count), type, sum) == 0;
}

}  // namespace bps::perf
