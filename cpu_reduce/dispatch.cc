#include "cpu_reduce/dispatch.h"

#include <atomic>
#include <string>

namespace bps::cpu {
namespace {

// Process-wide because the CPU is: set once at start-up, read by every reduce().
std::atomic<const KernelTable*>& current() {
  static std::atomic<const KernelTable*> table{supportedTargets().front()};
  return table;
}

}  // namespace

std::span<const KernelTable* const> supportedTargets() {
  static const KernelTable* const tables[] = {&scalarKernels()};
  return tables;
}

const KernelTable& currentKernels() { return *current().load(std::memory_order_relaxed); }

Status chooseTarget(std::string_view name) {
  if (name.empty() || name == "avx3" || name == "avx2" || name == "sse4" || name == "neon") {
    current().store(supportedTargets().front(), std::memory_order_relaxed);
    return {};
  }
  for (const KernelTable* table : supportedTargets()) {
    if (table->name != name) continue;
    current().store(table, std::memory_order_relaxed);
    return {};
  }
  return {Code::kInvalidArgument, "no CPU target is called \"" + std::string(name) + "\""};
}

}  // namespace bps::cpu
