// The planner chooses the local strategy of a machine and explains the choice. Pure.
//
// J of a strategy is the time of its slowest link: bytes divided by rate, for each direction, including the NICs'
// traffic on shared links. Two principles decide:
//
//   1. No GPU-to-GPU copy crosses PCIe switches. Among the strategies that satisfy this, the least J wins.
//   2. If two have equal J, the one with less GPU traffic on links shared with a NIC wins, then the one with less
//      traffic on the CPU interconnect.
//
// A strategy in the request overrides both. A link of unknown rate limits nothing.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "topo/plan/program.h"

namespace bps {

struct LocalPlanRequest {
  // GPU index by local rank; -1: host memory. Empty: one rank per GPU, or one rank if the machine has no GPU.
  std::vector<int> gpus = {};
  BufferLocation bufferLocation = BufferLocation::kOnGpus;
  uint64_t bytes = uint64_t{1} << 30;
  uint64_t unit = 4;                      // bytes of an element
  double network = 1;                     // bytes through the NICs, each way, per byte of buffer; 0: one machine only
  size_t roots = 0;                       // number of roots for rooted; 0: the fewest that reach the least J
  std::optional<Strategy> strategy = {};  // empty: the planner's choice
};

struct Candidate {
  LocalPlan plan;
  Traffic traffic;
  double seconds = 0;  // J
  LinkId slowest = kNoLink;
  Limit limit = Limit::kUp;
  bool copiesCrossSwitches = false;  // breaks the first principle
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

// Predicts the plan's traffic for a buffer of another size. The data path's counters are compared with it.
Traffic predict(const Topology& topology, const LocalPlan& plan, uint64_t bytes, uint64_t unit);

// Parses a strategy's name; "auto" or "" gives an empty result. A kInvalidArgument failure lists the choices.
Result<std::optional<Strategy>> parseStrategy(const std::string& name);

}  // namespace bps
