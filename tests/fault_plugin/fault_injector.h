// FaultInjector: decides which faults happen in this process, from a seed and a spec. All
// connections of the process share the injector. Any thread may use the injector.
//
// An init of the plugin makes a new injector if FAULT_PLUGIN_SPEC or FAULT_PLUGIN_SEED has changed.
// The faults of a connection depend on the seed, the rank and the number of earlier connections.
// The number of earlier connections may vary if several threads connect.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "tests/fault_plugin/spec.h"

namespace bps::fault {

// A source of random numbers; each connection has one.
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
  // Returns the injector for the current environment variables.
  static Result<std::shared_ptr<FaultInjector>> current();

  const Spec& spec() const { return spec_; }
  FaultRandom random();  // the random numbers of the next connection
  // Counts the plugin call. Returns a failure if the spec says that this call must fail.
  Status count(Call call);
  // Counts a connection attempt. Returns true if the attempt must be refused.
  bool shouldRefuse();
  // Counts a completed request. Returns true for exactly one request, whose connection must then
  // break.
  bool shouldBreakAfter(size_t bytes);
  // Counts a received message. Returns true if the message must be corrupted.
  bool shouldCorrupt(size_t bytes);
  // Counts a received message. Returns true if the message must be lost.
  bool shouldLose();
  // Counts a received message. Returns true if the message must be shortened.
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
