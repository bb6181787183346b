// LinkByteCounters: counts the bytes that the ranks of one machine have moved, by link, direction and kind
// (topo/plan/traffic.h). Each rank counts its own copies in its own row. The machine's traffic is the sum of all rows.
//
// Threads: only the holder of the progress lock (progress_engine.h) calls increment() and clear(); any thread may call
// total(). The counters are independent of each other, so all accesses are relaxed.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "topo/plan/traffic.h"

namespace bps {

class LinkByteCounters {
 public:
  using Counter = std::atomic<uint64_t>;
  struct Increment {
    size_t counter = 0;
    uint64_t bytes = 0;
  };

  // Returns the number of counters in a row.
  static size_t size(const Topology& topology) { return topology.links().size() * 2 * kCopyKinds; }
  // `rows` holds one row per local rank. The rows and the topology must outlive this object.
  LinkByteCounters(const Topology& topology, std::vector<Counter*> rows, size_t self)
      : topology_(topology), rows_(std::move(rows)), own_(rows_[self]) {}

  // Returns the increments that count each of these copies once.
  std::vector<Increment> incrementsOf(const std::vector<Copy>& copies) const;
  void increment(const std::vector<Increment>& increments, uint64_t times = 1) const {
    for (const Increment& increment : increments)
      own_[increment.counter].store(own_[increment.counter].load(std::memory_order_relaxed) + increment.bytes * times,
                                    std::memory_order_relaxed);
  }
  // Clears only this rank's row.
  void clear() const;
  Traffic total() const;

 private:
  const Topology& topology_;
  std::vector<Counter*> rows_;
  Counter* own_;
};

}  // namespace bps
