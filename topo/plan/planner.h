// The planner chooses the local strategy of a machine and explains the choice. Its functions have
// no side effects.
//
// J of a strategy is the time of its slowest link. The time of a link is its number of bytes in one
// direction, including the NICs' traffic, divided by its rate. Two principles decide:
//
//   1. No GPU-to-GPU copy goes from one PCIe switch to another. Among the strategies that satisfy
//      this principle, the strategy with the least J wins.
//   2. If two strategies have equal J, the strategy with less GPU traffic on links shared with
//      a NIC wins. If this traffic is equal too, the strategy with less traffic on the CPU
//      interconnect wins.
//
// A strategy in the request overrides both principles. A link of unknown rate does not count in J.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "topo/plan/program.h"

namespace bps {

struct LocalPlanRequest {
  // The GPU index of each local rank; -1 means a buffer in host memory. If empty, there is one rank
  // per GPU, or one rank if the machine has no GPU.
  std::vector<int> gpus = {};
  BufferLocation bufferLocation = BufferLocation::kOnGpus;
  uint64_t bytes = uint64_t{1} << 30;
  uint64_t unit = 4;   // bytes of an element
  double network = 1;  // bytes through the NICs, each way, per byte of buffer; 0: one machine only
  size_t roots = 0;    // number of roots of the strategy rooted; 0: the fewest roots that reach the least J
  std::optional<Strategy> strategy = {};  // empty if the planner may choose
};

struct Candidate {
  LocalPlan plan;
  Traffic traffic;
  double seconds = 0;  // J
  LinkId slowest = kNoLink;
  Limit limit = Limit::kUp;
  bool copiesCrossSwitches = false;  // true if the strategy breaks the first principle
  uint64_t besideNic = 0;            // bytes of GPU copies on links shared with a NIC, both directions together
  uint64_t interconnectBytes = 0;    // bytes on the CPU interconnect, both directions together
};

struct Decision {
  SwitchCount switches;
  std::vector<Candidate> candidates;  // in the order of kStrategies
  size_t chosen = 0;
  std::string reason;

  const Candidate& best() const { return candidates[chosen]; }
};

Result<Decision> planLocal(const Topology& topology, const LocalPlanRequest& job);

// Predicts the plan's traffic for a buffer of `bytes` bytes. The counters of the data path are
// compared with this prediction.
Traffic predict(const Topology& topology, const LocalPlan& plan, uint64_t bytes, uint64_t unit);

// Parses a strategy's name; "auto" or "" gives an empty result. A kInvalidArgument failure lists the choices.
Result<std::optional<Strategy>> parseStrategy(const std::string& name);

}  // namespace bps
