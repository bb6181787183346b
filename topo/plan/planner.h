// The planner: which local strategy a machine takes, and why. Pure.
//
// J of a strategy is the time of its slowest link: bytes over rate, each direction, the NICs' traffic included where it
// shares a link. The least J among the strategies that keep the first principle wins:
//
//   1. no copy from GPU to GPU crosses PCIe switches;
//   2. least traffic on the links that a NIC shares. It decides between equal J, then least over the CPU interconnect.
//
// A given strategy overrides both. Links of unknown rate limit nothing.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "topo/plan/program.h"

namespace bps {

struct LocalPlanRequest {
  std::vector<int> gpus =
      {};  // by local rank; -1: in host memory. Empty: a rank on each GPU, or one where there is none
  BufferLocation bufferLocation = BufferLocation::kOnGpus;
  uint64_t bytes = uint64_t{1} << 30;
  uint64_t unit = 4;                      // bytes of an element
  double network = 1;                     // bytes through the NICs, each way, per byte of buffer; 0: one machine only
  size_t roots = 0;                       // of rooted; 0: as few as reach the least J
  std::optional<Strategy> strategy = {};  // empty: the planner's choice
};

struct Candidate {
  LocalPlan plan;
  Traffic traffic;
  double seconds = 0;  // J
  LinkId slowest = kNoLink;
  Limit limit = Limit::kUp;
  bool copiesCrossSwitches = false;  // breaks the first principle
  uint64_t besideNic = 0;            // GPUs' bytes on links that a NIC shares, both directions, and as below
  uint64_t interconnectBytes = 0;    // bytes between NUMA nodes
};

// Part x of the buffer is copied whole by every rank to host memory, the rest by cpu_assisted. The best x, which is not
// used: it costs as many times the memory's bandwidth as ranks share a switch.
struct Mixture {
  double x = 0;
  double seconds = 0;
};

struct Decision {
  SwitchCount switches;
  std::vector<Candidate> candidates;  // in the order of kStrategies
  size_t chosen = 0;
  std::string reason;
  Mixture mixture;

  const Candidate& best() const { return candidates[chosen]; }
};

Result<Decision> planLocal(const Topology& topology, const LocalPlanRequest& job);

// The same plan's traffic for a buffer of another size; what the data path's counters are held against.
Traffic predict(const Topology& topology, const LocalPlan& plan, uint64_t bytes, uint64_t unit);

// auto (empty) or a strategy's name. kInvalidArgument names the choices.
Result<std::optional<Strategy>> parseStrategy(const std::string& name);

}  // namespace bps
