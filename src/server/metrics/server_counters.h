// ServerCounters: what the control thread of a server counts, for its metrics.
//
// The control thread writes; any thread may read. The counters order no other data, so they are relaxed.
#pragma once
#include <atomic>
#include <cstdint>

namespace bps::server {

class Counter {
 public:
  void add() { value_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

struct ServerCounters {
  Counter turns;          // of the control thread's event loop
  Counter jobsBegun;      // jobs whose roster became final with this server
  Counter jobsCompleted;  // begun jobs that ended without a failure that this server saw
  Counter jobsFailed;     // begun jobs that ended with such a failure
  Counter jobsRefused;    // proposals of jobs that this server refused, for example because it drains
};

}  // namespace bps::server
