// The baselines of the cpu_reduce benchmark are the memory bound and plain loops. They are compiled
// for this CPU (-march=native).
#pragma once
#include <cstddef>
#include <span>

namespace bps::perf {

// Reads `bytes` bytes of every source and writes `bytes` bytes to dst, without arithmetic. The
// speed of this function is the memory bound. `stream` selects non-temporal stores. `bytes` is a multiple of 4096; all
// addresses are aligned to 64 bytes.
void readAndWrite(void* dst, std::span<const void* const> sources, size_t bytes, bool stream);
// Like readAndWrite(), but with OpenMP threads.
void readAndWriteThreads(void* dst, std::span<const void* const> sources, size_t bytes, bool stream, int threads);

// Computes dst[i] += src[i] in a plain loop.
void plainFloat(float* dst, const float* src, size_t count);
void plainHalf(void* dst, const void* src, size_t count);
void plainBfloat16(void* dst, const void* src, size_t count);
// Like plainHalf(), but decodes the bits case by case, without the compiler's type or the CPU's
// instructions for float16.
void softwareHalf(void* dst, const void* src, size_t count);

// Computes dst[i] += src[i] with MPI_Reduce_local of Open MPI's shared library. Returns false if
// that library cannot be used.
bool openMpiFloat(float* dst, const float* src, size_t count);

}  // namespace bps::perf
