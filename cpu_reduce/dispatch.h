// Chooses the reduction kernels: one table per CPU target, chosen once per process.
//
// A table has a kernel for every type and operation, so that no call mixes targets. The default is the best table that
// the CPU supports. chooseTarget() limits it (BPS_CPU_TARGET); tests use it to run every target.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "cpu_reduce/reduce.h"
#include "src/base/status.h"

namespace bps::cpu {

// Elements [begin, begin + count) of a ReduceArgs, for one thread.
struct FoldArgs {
  void* dst = nullptr;
  const void* const* sources = nullptr;
  size_t nSources = 0;
  size_t begin = 0;
  size_t count = 0;
  const ScalarBits* scalars = nullptr;  // null: none; bits of the accumulator type, see widenedScalar()
  uint64_t divisor = 1;
  const uint64_t* divisors = nullptr;  // null: none
  bool stream = false;                 // use non-temporal stores; dst is then not one of the sources
  size_t cacheBytes = 0;               // size of a core's private cache
};

using Kernel = void (*)(const FoldArgs& fold);

struct KernelTable {
  std::string_view name;
  Kernel kernels[kDataTypes][4];  // by DataType and FoldOp
};

// The reference for all SIMD kernels, and the fallback on every CPU.
const KernelTable& scalarKernels();
// Converts an element's bits to those of its accumulator: float for the 16-bit and 8-bit floats, else unchanged.
ScalarBits widenedScalar(DataType type, ScalarBits bits);

// The targets of this build that this CPU supports, best first; the last is "scalar".
std::span<const KernelTable* const> supportedTargets();

// The current target and all targets that this CPU supports, as text: "avx3 (of avx3, avx2, sse4, scalar)".
std::string describeKernels();

// The current table. Chosen at the first call, unless chooseTarget() was called before.
const KernelTable& currentKernels();

// Sets the most capable target that may be used: "scalar", "sse4", "avx2", "avx3", "neon" or "sve"; empty: the best of
// this CPU. If the CPU does not support the target, the best supported one below it is used. Fails for an unknown name
// and for a target of another architecture. Any thread may call it; a concurrent reduce() uses either the old or the
// new table throughout.
Status chooseTarget(std::string_view name);

}  // namespace bps::cpu
