// The baselines of the cpu_reduce benchmark, compiled for this CPU (-march=native): the memory bound and plain loops.
#pragma once
#include <cstddef>
#include <span>

namespace bps::perf {

// Reads `bytes` of every source and writes as many to dst, without arithmetic: the memory bound. `stream` selects
// non-temporal stores. `bytes` is a multiple of 4096; all addresses are aligned to 64 bytes.
void readAndWrite(void* dst, std::span<const void* const> sources, size_t bytes, bool stream);
// The same with OpenMP threads.
void readAndWriteThreads(void* dst, std::span<const void* const> sources, size_t bytes, bool stream, int threads);

// dst[i] += src[i] as a plain loop.
void plainFloat(float* dst, const float* src, size_t count);
void plainHalf(void* dst, const void* src, size_t count);
void plainBfloat16(void* dst, const void* src, size_t count);
// The same for float16 without the compiler's type or the CPU's instructions, by decoding the bits case by case.
void softwareHalf(void* dst, const void* src, size_t count);

// Open MPI's MPI_Reduce_local of floats, from its shared library; false if that is not installed.
bool openMpiFloat(float* dst, const float* src, size_t count);

}  // namespace bps::perf
