#include "src/nccl/gpu_locality.h"

#include <algorithm>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/cuda/device.h"
#include "topo/load_topology.h"
#include "topo/plan/planner.h"

namespace bps::nccl {
namespace {

// Finds the GPU by its bus id. If that fails and BPS_TOPO_FILE describes the machine, finds the GPU
// by its number. Returns kNoNode if there is no such GPU.
NodeId gpuOf(const Topology& topology, const std::string& busId, int device, const Env& env) {
  const std::vector<NodeId>& gpus = topology.all(NodeKind::kGpu);
  for (const NodeId gpu : gpus)
    if (topology.node(gpu).pcie.busId == busId) return gpu;
  const auto number = static_cast<size_t>(device);
  return !env.topoFile.empty() && number < gpus.size() ? gpus[number] : kNoNode;
}

Result<GpuLocality> plannedGpuLocality(int device, const Env& env) {
  const cuda::Api* driver = BPS_TRY(cuda::driver());
  const Topology topology = BPS_TRY(loadConfiguredTopology(env));
  const NodeId gpu = gpuOf(topology, cuda::Device::busId(*driver, device), device, env);
  if (gpu == kNoNode) return failure(Code::kInvalidArgument, "it has no CUDA device {}", device);
  LocalPlanRequest job;  // plan for one rank on every GPU
  job.strategy = BPS_TRY(parseStrategy(env.strategy));
  const Decision decision = BPS_TRY(planLocal(topology, job));
  const LocalPlan& plan = decision.best().plan;
  if (plan.strategy == Strategy::kCpuAssisted)
    return GpuLocality{topology.nameOf(topology.switchOf(gpu)), false, false};
  const bool root = std::any_of(plan.roots.begin(), plan.roots.end(),
                                [&](size_t rank) { return plan.placement.ranks[rank].location == gpu; });
  return GpuLocality{{}, root, LocalProgram(plan).addsAlongRing()};
}

}  // namespace

GpuLocality gpuLocalityOf(int device, const Env& env) {
  Result<GpuLocality> planned = plannedGpuLocality(device, env);
  if (planned.ok()) return std::move(planned).value();
  logInfo(Subsystem::kTopo, "topology of this machine: {}; bps treats its GPUs as joined by NVLink",
          planned.error().message());
  return {};
}

}  // namespace bps::nccl
