// ResourceUsage: the descriptors, mappings and heap memory that this process uses. The rules use it
// to detect leaks of a plugin.
#pragma once
#include <cstddef>
#include <string>

namespace bps::check {

struct ResourceUsage {
  size_t descriptors = 0;
  size_t mappings = 0;
  size_t heapBytes = 0;  // 0 if the allocator does not report it

  static ResourceUsage now();
};

// Describes a leak after `rounds` rounds of allocating and freeing, such as "12 descriptors open
// before, 32 after". Returns empty text if there is no leak. Mappings and heap may grow by a
// limited amount because of allocators and caches, but not with every round.
std::string describeLeak(const ResourceUsage& before, const ResourceUsage& after, size_t rounds);

}  // namespace bps::check
