// Which kernels run: one whole table per CPU target, chosen once for the process.
//
// A table has a kernel for every type and op, so that no call ever mixes targets. The best table that the CPU supports
// is the default; chooseTarget() limits it (BPS_CPU_TARGET) and is what tests use to force every target in turn.
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
  const ScalarBits* scalars = nullptr;  // null: none; widened, the bits of accumulators
  uint64_t divisor = 1;
  const uint64_t* divisors = nullptr;  // null: none
  bool stream = false;                 // write past the cache; dst is then none of the sources
  size_t cacheBytes = 0;               // of the cache that one core has for itself
};

using Kernel = void (*)(const FoldArgs& fold);

struct KernelTable {
  std::string_view name;
  Kernel kernels[kDataTypes][4];  // by DataType and FoldOp
};

// The oracle, and the fallback of any CPU.
const KernelTable& scalarKernels();
// The accumulator's bits of an element: a float's for the small floats, else the same.
ScalarBits widenedScalar(DataType type, ScalarBits bits);

// The targets of this build that this CPU supports, best first; the last is "scalar".
std::span<const KernelTable* const> supportedTargets();

// The one in force and all that this CPU supports, for people: "avx3 (of avx3, avx2, sse4, scalar)".
std::string describeKernels();

// The table in force. Chosen at the first call, unless chooseTarget() came before.
const KernelTable& currentKernels();

// The most capable target that may be used: "scalar", "sse4", "avx2", "avx3", "neon", "sve"; empty: the best of this
// CPU. A name above what the CPU supports gives the best that it does. Fails for unknown names and those of other
// architectures. Any thread; calls of reduce() that run meanwhile use either table, whole.
Status chooseTarget(std::string_view name);

}  // namespace bps::cpu
