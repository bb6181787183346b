#include "cpu_reduce/dispatch.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <string>
#include <vector>

#include "cpu_reduce/simd.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace bps::cpu {
namespace {

struct Target {
  std::string_view name;
  const KernelTable* table;  // null if the target belongs to another architecture
  bool supported;
};

#if defined(__x86_64__)
// These functions test all CPU features that the compiler may use for a target, not only the
// features that the kernels use explicitly.
bool hasAvx2() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  bool f16c = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
  return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2");
}

bool hasAvx3() {
  return hasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
}

bool hasSse4() { return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("ssse3"); }
#endif

using Fill = void (*)(KernelTable& table);

// Returns the kernel table of a target. The fill functions contain instructions of the target. If
// the CPU does not support the target, these functions are not called, and the table stays empty.
KernelTable makeTable(std::string_view name, bool supported, std::array<Fill, 4> fills) {
  KernelTable table{.name = name, .kernels = {}};
  if (!supported) return table;
  for (const Fill fill : fills) fill(table);
  return table;
}

#define BPS_KERNELS(name, supported, N) \
  makeTable(name, supported, {N::fillIntegers, N::fillFloats, N::fillHalves, N::fillFloat8s})

// Returns all targets, the most capable first. Targets of other architectures have no table.
std::span<const Target> allTargets() {
#if defined(__x86_64__)
  static const KernelTable avx3 = BPS_KERNELS("avx3", hasAvx3(), N_AVX3);
  static const KernelTable avx2 = BPS_KERNELS("avx2", hasAvx2(), N_AVX2);
  static const KernelTable sse4 = BPS_KERNELS("sse4", hasSse4(), N_SSE4);
  static const Target targets[] = {{"avx3", &avx3, hasAvx3()}, {"avx2", &avx2, hasAvx2()},
                                   {"sse4", &sse4, hasSse4()}, {"sve", nullptr, false},
                                   {"neon", nullptr, false},   {"scalar", &scalarKernels(), true}};
#elif defined(__aarch64__)
  static const bool hasSve = (getauxval(AT_HWCAP) & HWCAP_SVE) != 0;
  static const KernelTable sve = BPS_KERNELS("sve", hasSve, N_SVE);
  static const KernelTable neon = BPS_KERNELS("neon", true, N_NEON);
  static const Target targets[] = {{"avx3", nullptr, false}, {"avx2", nullptr, false},
                                   {"sse4", nullptr, false}, {"sve", &sve, hasSve},
                                   {"neon", &neon, true},    {"scalar", &scalarKernels(), true}};
#else
  static const Target targets[] = {{"scalar", &scalarKernels(), true}};
#endif
  return targets;
}

// The kernel table that the whole process uses. chooseTarget() sets it at start-up, and every
// reduce() reads it.
std::atomic<const KernelTable*>& current() {
  static std::atomic<const KernelTable*> table{supportedTargets().front()};
  return table;
}

}  // namespace

std::span<const KernelTable* const> supportedTargets() {
  static const std::vector<const KernelTable*> tables = [] {
    std::vector<const KernelTable*> found;
    for (const Target& target : allTargets()) {
      if (target.supported) found.push_back(target.table);
    }
    return found;
  }();
  return tables;
}

std::string describeKernels() {
  std::string all;
  for (const KernelTable* table : supportedTargets()) all += (all.empty() ? "" : ", ") + std::string(table->name);
  return std::string(currentKernels().name) + " (of " + all + ")";
}

const KernelTable& currentKernels() { return *current().load(std::memory_order_relaxed); }

Status chooseTarget(std::string_view name) {
  std::span<const Target> targets = allTargets();
  auto most = name.empty()
                  ? targets.begin()
                  : std::find_if(targets.begin(), targets.end(), [&](const Target& t) { return t.name == name; });
  bool ours = most != targets.end() && (name.empty() || most->table != nullptr);
  if (!ours) return {Code::kInvalidArgument, "this build has no CPU kernels \"" + std::string(name) + "\""};
  auto best = std::find_if(most, targets.end(), [](const Target& t) { return t.supported; });
  current().store(best->table, std::memory_order_relaxed);
  return {};
}

}  // namespace bps::cpu
