// Chooses the table of reduction kernels that reduce() uses. There is one table for each CPU
// target, which is an instruction set such as AVX2.
//
// A table has a kernel for every data type and operation, so no call mixes targets. By default, the
// process uses the best table that the CPU supports. chooseTarget() limits the choice to less
// capable targets. The variable BPS_CPU_TARGET sets this limit, and tests use it to run every
// target.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "cpu_reduce/reduce.h"
#include "src/base/status.h"

namespace bps::cpu {

// The work of one thread, which folds the elements [begin, begin + count) of a ReduceArgs.
struct FoldArgs {
  void* dst = nullptr;
  const void* const* sources = nullptr;
  size_t nSources = 0;
  size_t begin = 0;
  size_t count = 0;
  const ScalarBits* scalars = nullptr;  // the results of widenedScalar() for all sources, or null
  uint64_t divisor = 1;
  const uint64_t* divisors = nullptr;  // null if there are no divisors
  bool stream = false;                 // use non-temporal stores; requires that dst is not one of the sources
  size_t cacheBytes = 0;               // size of a core's private cache
};

using Kernel = void (*)(const FoldArgs& fold);

struct KernelTable {
  std::string_view name;
  Kernel kernels[kDataTypes][4];  // indexed by DataType and FoldOp
};

// Returns the scalar kernels, which run on every CPU. They are the reference for all SIMD kernels.
const KernelTable& scalarKernels();
// Converts the bits of an element to the bits of its accumulator. The accumulator of a 16-bit or
// 8-bit float is a float. The bits of all other types stay unchanged.
ScalarBits widenedScalar(DataType type, ScalarBits bits);

// Returns the tables of all targets that this CPU supports, the best first. The last table is
// "scalar".
std::span<const KernelTable* const> supportedTargets();

// Describes the current target and all targets that this CPU supports. Example: "avx3 (of avx3,
// avx2, sse4, scalar)".
std::string describeKernels();

// Returns the table that reduce() uses. Until chooseTarget() is called, this is the best table that
// the CPU supports.
const KernelTable& currentKernels();

// Sets the most capable target that reduce() may use: "scalar", "sse4", "avx2", "avx3", "neon" or
// "sve". An empty name allows every target. If the CPU does not support the named target, reduce()
// uses the best supported target below it. Fails for an unknown name and for a target of another
// architecture. Any thread may call this function. A reduce() that runs at the same time uses only
// one of the two tables, the old or the new table.
Status chooseTarget(std::string_view name);

}  // namespace bps::cpu
