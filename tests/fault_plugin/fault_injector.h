// FaultInjector: the faults of this process, determined by one seed and one spec. All connections share it. Any thread.
//
// An init creates a new one if FAULT_PLUGIN_SPEC or FAULT_PLUGIN_SEED has changed. The faults of a connection depend on
// the seed, the rank and the number of earlier connections. That number may vary if several threads connect.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "tests/fault_plugin/spec.h"

namespace bps::fault {

// A source of random numbers, one for each connection.
class FaultRandom {
 public:
  explicit FaultRandom(uint64_t seed) : state_(seed) {}
  bool drawEvent(double chance);
  uint64_t drawBelow(uint64_t end);

 private:
  uint64_t draw();
  uint64_t state_;
};

class FaultInjector {
 public:
  // The injector for the current environment.
  static Result<std::shared_ptr<FaultInjector>> current();

  const Spec& spec() const { return spec_; }
  FaultRandom random();  // for the next connection
  // Counts the call; returns a failure if this call must fail.
  Status count(Call call);
  // Counts a connection attempt; returns whether to refuse it.
  bool shouldRefuse();
  // Counts a completed request; returns true once, when the connection must break.
  bool shouldBreakAfter(size_t bytes);
  // Counts a received message; returns whether to corrupt it.
  bool shouldCorrupt(size_t bytes);
  // Counts a received message; returns whether to lose it.
  bool shouldLose();
  // Counts a received message; returns whether to shorten it.
  bool shouldShorten(size_t bytes);

 private:
  FaultInjector(const Spec& spec, uint64_t seed) : spec_(spec), seed_(seed) {}

  const Spec spec_;
  const uint64_t seed_;
  std::atomic<uint64_t> connections_{0}, attempts_{0}, bytes_{0}, requests_{0}, received_{0}, candidates_{0},
      losable_{0};
  std::array<std::atomic<uint64_t>, kCalls> calls_{};
};

}  // namespace bps::fault
