// ResourceUsage: what this process has of the things that a plugin may forget to give back.
#pragma once
#include <cstddef>
#include <string>

namespace bps::check {

struct ResourceUsage {
  size_t descriptors = 0;
  size_t mappings = 0;
  size_t heapBytes = 0;  // 0 where the allocator does not tell

  static ResourceUsage now();
};

// What is more than before although it should not be, after so many rounds of taking and giving back: "12 descriptors
// open before, 32 after". Empty: nothing. Allocators and caches may grow a little, but not with every round.
std::string describeLeak(const ResourceUsage& before, const ResourceUsage& after, size_t rounds);

}  // namespace bps::check
