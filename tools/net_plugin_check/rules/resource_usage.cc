#include "tools/net_plugin_check/rules/resource_usage.h"

#include <dirent.h>
#include <malloc.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "src/base/format.h"
#include "src/base/mutex.h"

namespace bps::check {
namespace {

constexpr size_t kMappingSlack = 20, kCyclesPerMapping = 10;
constexpr size_t kHeapSlackBytes = size_t{64} << 10, kHeapBytesPerCycle = 16;

size_t openDescriptors() {
  static Mutex oneAtATime;  // no thread must count the directory descriptor of another thread
  const MutexLock lock(oneAtATime);
  DIR* directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) return 0;
  size_t count = 0;
  while (::readdir(directory) != nullptr) ++count;
  ::closedir(directory);
  return count - 3;  // excludes ".", ".." and the descriptor of the directory itself
}

size_t mappedRanges() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<size_t>(std::count(std::istreambuf_iterator<char>(maps), {}, '\n'));
}

size_t allocatedBytes() {
  const struct mallinfo2 all = ::mallinfo2();
  return all.uordblks + all.hblkhd;
}

}  // namespace

ResourceUsage ResourceUsage::now() {
  return {.descriptors = openDescriptors(), .mappings = mappedRanges(), .heapBytes = allocatedBytes()};
}

std::string describeLeak(const ResourceUsage& before, const ResourceUsage& after, size_t rounds) {
  if (after.descriptors > before.descriptors)
    return fmt::format("{} descriptors open before, {} after", before.descriptors, after.descriptors);
  if (after.mappings > before.mappings + kMappingSlack + rounds / kCyclesPerMapping)
    return fmt::format("{} mappings before, {} after", before.mappings, after.mappings);
  if (after.heapBytes > before.heapBytes + kHeapSlackBytes + rounds * kHeapBytesPerCycle)
    return fmt::format("{} bytes of heap before, {} after", before.heapBytes, after.heapBytes);
  return {};
}

}  // namespace bps::check
