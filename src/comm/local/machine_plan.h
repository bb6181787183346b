// MachinePlan: what the ranks of one machine have agreed on: the machine as its leader sees it, and what each rank does
// with every chunk. The leader's settings hold for the machine; the others make the same plan from its brief.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/env.h"
#include "src/base/status.h"
#include "src/base/wire_io.h"
#include "topo/plan/planner.h"

namespace bps {

// What a plan is made of.
struct MachineSpec {
  std::string topology;              // NCCL's XML
  std::string strategy;              // as in BPS_STRATEGY
  bool userDescribed = false;        // by the user
  std::vector<std::string> devices;  // where on the bus each local rank's CUDA device is; empty: it has none
  double network = 0;                // bytes through the NICs, each way, for every byte of a buffer
};

Blob encode(const MachineSpec& machineSpec);
Result<MachineSpec> decodeMachineSpec(std::span<const uint8_t> bytes);

// By BPS_TOPO_FILE, BPS_STRATEGY and BPS_TOPO_DUMP_FILE. A machine that nobody describes and that cannot be looked at
// counts as one CPU. Of so many ranks, without devices. BPS_TOPO_FILE says that these stand for its GPUs; a file that
// is there for NCCL only describes the machine.
Result<MachineSpec> makeMachineSpec(const Env& env, size_t ranks, double network);

struct MachinePlan {
  static Result<std::unique_ptr<const MachinePlan>> make(const MachineSpec& machineSpec);
  // "cpu_assisted (S_n = 0, S_g = 2, no NVLink: ...)"
  std::string describe() const;
  // What the rank drives; null: nothing. Of the NICs of a rank that is alone one beside its GPU, else the first.
  const NicAssignment* assignmentOf(size_t localRank) const;
  // Why a rank's NIC should not reach into its GPU's memory: between the two is more than PCIe switches. Empty: it may.
  std::string whyNoGpuDirect(size_t localRank) const;

  Topology topology;
  LocalProgram program;
  std::string reason;
  std::vector<int> stagedGpu;  // by local rank: the GPU whose memory is copied to the host and back; -1: none
};

}  // namespace bps
