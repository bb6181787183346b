// World: the faults of this process as one seed and one spec make them; shared by all its connections.
//
// Made anew when FAULT_PLUGIN_SPEC or FAULT_PLUGIN_SEED have changed at an init. What one connection meets depends on
// the seed, the rank and how many connections came before it; which comes first may differ from run to run where
// several threads connect. Any thread.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "tests/fault_plugin/spec.h"

namespace bps::fault {

// A source of chances; one per connection.
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
  // As the environment says now.
  static Result<std::shared_ptr<FaultInjector>> current();

  const Spec& spec() const { return spec_; }
  FaultRandom random();  // for one more connection
  // Counts the call; fails when it is the one that must.
  Status count(Call call);
  // Counts a connection attempt; true when it is to be refused.
  bool shouldRefuse();
  // Counts a completed request; true, once, when the connection must break.
  bool shouldBreakAfter(size_t bytes);
  // Counts a received message; true for the one to be corrupted.
  bool shouldCorrupt(size_t bytes);
  // Counts a received message; true for the one that is lost.
  bool shouldLose();
  // Counts a received message; true for the one of which a part is missing.
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
