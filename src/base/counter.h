// Counter: a number that only grows, for metrics. Any thread may use it. Counters order no other data, so they are
// relaxed.
#pragma once
#include <atomic>
#include <cstdint>

namespace bps {

class Counter {
 public:
  void add(uint64_t more = 1) { value_.fetch_add(more, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

}  // namespace bps
