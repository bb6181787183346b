// What cpu_reduce is measured against, compiled for this very CPU: the memory's own limit and the obvious loops.
#pragma once
#include <cstddef>
#include <span>

namespace bps::perf {

// Reads `bytes` of every source and writes as many to dst, without any arithmetic: what memory allows. Streams past
// the cache if asked. bytes is a multiple of 4096, everything is aligned to 64.
void readAndWrite(void* dst, std::span<const void* const> sources, size_t bytes, bool stream);
// The same by OpenMP threads.
void readAndWriteThreads(void* dst, std::span<const void* const> sources, size_t bytes, bool stream, int threads);

// dst[i] += src[i] as anybody would write it.
void plainFloat(float* dst, const float* src, size_t count);
void plainHalf(void* dst, const void* src, size_t count);
void plainBfloat16(void* dst, const void* src, size_t count);
// The same for float16 without the compiler's type or the CPU's instructions: bits are taken apart, case by case.
void softwareHalf(void* dst, const void* src, size_t count);

// Open MPI's MPI_Reduce_local of floats, from its shared library; false where that is not installed.
bool openMpiFloat(float* dst, const float* src, size_t count);

}  // namespace bps::perf
