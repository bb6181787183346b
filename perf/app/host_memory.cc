#include "perf/app/host_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <string>

namespace bps::perf {
namespace {

std::optional<uint64_t> readNumber(const std::string& path) {
  std::ifstream file(path);
  uint64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // the file does not exist, or contains "max"
}

uint64_t freeMachineMemory() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (uint64_t kib = 0; file >> name >> kib; std::getline(file, unit)) {
    if (name == "MemAvailable:") return kib * 1024;
  }
  return UINT64_MAX;
}

// The line "0::PATH" names the process's control group of version 2 (cgroup v2).
uint64_t freeCgroupMemory() {
  std::ifstream file("/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("0::")) continue;
    const std::string group = "/sys/fs/cgroup" + line.substr(3);
    const auto most = readNumber(group + "/memory.max"), used = readNumber(group + "/memory.current");
    if (most && used) return *most - std::min(*most, *used);
  }
  return UINT64_MAX;
}

}  // namespace

uint64_t availableMemory() { return std::min(freeMachineMemory(), freeCgroupMemory()); }

}  // namespace bps::perf
