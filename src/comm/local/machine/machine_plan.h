// MachinePlan: the topology of one machine and the steps of each of its ranks, equal on all ranks.
// The leader (local rank 0) makes a MachineSpec from its settings and distributes it. All ranks of
// the machine compute the same plan from this MachineSpec. The plan does not change afterwards, so
// any thread may read it.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/env.h"
#include "src/base/io/fd.h"
#include "src/base/io/wire_io.h"
#include "src/base/status.h"
#include "topo/plan/planner.h"

namespace bps {

// The input of a plan.
struct MachineSpec {
  std::string topology;              // NCCL's XML
  std::string strategy;              // as in BPS_STRATEGY
  bool userDescribed = false;        // true if the topology is from BPS_TOPO_FILE
  std::vector<std::string> devices;  // per local rank, the PCI bus id of its CUDA device; empty if none
  double network = 0;                // bytes that the NICs send, and also receive, per byte of a buffer
};

Blob encode(const MachineSpec& machineSpec);
Result<MachineSpec> decodeMachineSpec(std::span<const uint8_t> bytes);
// The leader writes the encoded spec into a memory file and passes the descriptor of this file to
// the other ranks.
Result<UniqueFd> writeSpecFile(const MachineSpec& machineSpec);
Result<MachineSpec> readSpecFile(const UniqueFd& file);

// Makes the spec of a machine with `ranks` ranks, without devices, from BPS_TOPO_FILE, BPS_STRATEGY
// and BPS_TOPO_DUMP_FILE. If there is no topology file and detection fails, the machine counts as
// one CPU. With BPS_TOPO_FILE, ranks without a device take the place of the GPUs in the file. With
// NCCL_TOPO_FILE, ranks without a device have no GPU.
Result<MachineSpec> makeMachineSpec(const Env& env, size_t ranks, double network);

struct MachinePlan {
  static Result<std::unique_ptr<const MachinePlan>> make(const MachineSpec& machineSpec);
  // "cpu_assisted (S_n = 0, S_g = 2, no NVLink: ...)"
  std::string describe() const;
  // Returns the NIC assignment of the rank, or null if it has none. If a single rank has all NICs,
  // returns a NIC under the same switch as the rank's GPU, or the first NIC if there is no such
  // NIC.
  const NicAssignment* assignmentOf(size_t localRank) const;
  // Returns why the rank's NIC should not access the memory of the rank's GPU directly, for example
  // because no PCIe switch is above NIC and GPU. The result is empty if the NIC may do so.
  std::string whyNoGpuDirect(size_t localRank) const;

  Topology topology;
  LocalProgram program;
  std::string reason;
  std::vector<int> stagedGpu;  // per local rank, the GPU whose memory is staged; -1 if none
};

}  // namespace bps
