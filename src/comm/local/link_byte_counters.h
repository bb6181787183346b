// LinkByteCounters: the bytes that the ranks of one machine have moved, by link, direction and kind
// (topo/plan/traffic.h). Each rank counts what it moves itself, in a row of its own; all rows together are the
// machine's.
//
// Threads: charge() and clear() by who has the turn (progress_engine.h), total() by any. Numbers are independent of
// each other, so they are read and written without any order.
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

  // Numbers in a row.
  static size_t size(const Topology& topology) { return topology.links().size() * 2 * kCopyKinds; }
  // `rows` of all ranks of the machine outlive the meter, as the topology does.
  LinkByteCounters(const Topology& topology, std::vector<Counter*> rows, size_t self)
      : topology_(topology), rows_(std::move(rows)), own_(rows_[self]) {}

  // What these copies amount to, counter by counter.
  std::vector<Increment> incrementsOf(const std::vector<Copy>& copies) const;
  void increment(const std::vector<Increment>& increments, uint64_t times = 1) const {
    for (const Increment& increment : increments)
      own_[increment.counter].store(own_[increment.counter].load(std::memory_order_relaxed) + increment.bytes * times,
                                    std::memory_order_relaxed);
  }
  // This rank's row only.
  void clear() const;
  Traffic total() const;

 private:
  const Topology& topology_;
  std::vector<Counter*> rows_;
  Counter* own_;
};

}  // namespace bps
