#include "src/comm/local/machine_plan.h"

#include <algorithm>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/comm/lanes/rails.h"
#include "topo/detect/detect.h"
#include "topo/source.h"
#include "topo/synthetic.h"
#include "topo/xml/files.h"

namespace bps {
namespace {

constexpr const char* kUnknownMachine = "cpu";
constexpr double kMostNetwork = 1e3;  // it is 2 with one rail, and less with servers

Result<Topology> topologyOf(const Env& env) {
  Result<Topology> topology = processTopology(env);
  if (topology.ok() || !env.topoFile.empty()) return topology;
  logInfo(Subsystem::kTopo, "{}; it counts as one CPU", topology.error().message());
  const Draft draft = BPS_TRY(readSynthetic(kUnknownMachine));
  return draft.build();
}

// The GPU of each rank: the one that is its device or, where the user describes the machine and it is not there, the
// one with the rank's number. Ranks without a device stand for the GPUs of a machine that the user describes.
std::vector<int> gpusOf(const std::vector<std::string>& devices, const Topology& topology, bool described) {
  const std::vector<NodeId>& there = topology.all(NodeKind::kGpu);
  std::vector<int> gpus(devices.size(), -1);
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    if (described && rank < there.size()) gpus[rank] = static_cast<int>(rank);
    for (size_t gpu = 0; gpu < there.size(); ++gpu)
      if (!devices[rank].empty() && topology.node(there[gpu]).pcie.busId == devices[rank])
        gpus[rank] = static_cast<int>(gpu);
  }
  return gpus;
}

}  // namespace

Blob encode(const MachineBrief& brief) {
  WireWriter writer;
  writer.put(brief.topology).put(brief.strategy).put(static_cast<uint8_t>(brief.described)).put(brief.network);
  writer.put(static_cast<uint32_t>(brief.devices.size()));
  for (const std::string& device : brief.devices) writer.put(device);
  return writer.bytes();
}

Result<MachineBrief> decodeMachineBrief(std::span<const uint8_t> bytes) {
  WireReader reader(bytes);
  MachineBrief brief;
  brief.topology = reader.getString();
  brief.strategy = reader.getString();
  brief.described = reader.get<uint8_t>() != 0;
  brief.network = reader.getDouble();
  brief.devices.resize(reader.getCount(sizeof(uint32_t)));
  for (std::string& device : brief.devices) device = reader.getString();
  BPS_TRY(reader.finish("brief of the local leader"));
  if (!(brief.network >= 0 && brief.network <= kMostNetwork))
    return failure(Code::kRemote, "brief of the local leader: {} bytes through the NICs for one of a buffer",
                   brief.network);
  return brief;
}

Result<MachineBrief> briefOf(const Env& env, size_t ranks, double network) {
  MachineBrief brief;
  brief.topology = writeNcclXml(BPS_TRY(topologyOf(env)));
  brief.strategy = env.strategy;
  brief.described = !env.topoFile.empty();
  brief.devices.resize(ranks);
  brief.network = network;
  return brief;
}

Result<std::unique_ptr<const MachinePlan>> MachinePlan::make(const MachineBrief& brief) {
  const Draft draft = BPS_TRY(readMachineXml(brief.topology));
  Topology topology = BPS_TRY(draft.build());
  LocalJob job;
  const bool copied = std::any_of(brief.devices.begin(), brief.devices.end(),
                                  [](const std::string& device) { return !device.empty(); });
  job.gpus = gpusOf(brief.devices, topology, brief.described);
  job.seats = copied ? Seats::kBesideGpus : Seats::kOnGpus;
  job.network = brief.network;
  job.strategy = BPS_TRY(parseStrategy(brief.strategy));
  const Decision decision = BPS_TRY(planLocal(topology, job));
  std::vector<int> copiedFrom = copied ? job.gpus : std::vector<int>(job.gpus.size(), -1);
  return std::unique_ptr<const MachinePlan>(
      new MachinePlan{std::move(topology), LocalProgram(decision.best().plan), decision.reason, std::move(copiedFrom)});
}

const NicDuty* MachinePlan::dutyOf(size_t localRank) const {
  const LocalPlan& plan = program.plan();
  const NicDuty* first = bps::dutyOf(plan, localRank);
  if (copiedFrom.size() > 1 || copiedFrom[localRank] < 0) return first;
  const NodeId gpu = topology.all(NodeKind::kGpu)[static_cast<size_t>(copiedFrom[localRank])];
  for (const NicDuty& duty : plan.duties)
    if (duty.rank == localRank && duty.nic != kNoNode && topology.underOneSwitch(gpu, duty.nic)) return &duty;
  return first;
}

std::string MachinePlan::gpuObstacle(size_t localRank) const {
  const NicDuty* duty = dutyOf(localRank);
  if (copiedFrom[localRank] < 0) return "the machine's topology has no such GPU";
  if (duty == nullptr || duty->nic == kNoNode) return "the machine's topology has no NIC for it";
  const NodeId gpu = topology.all(NodeKind::kGpu)[static_cast<size_t>(copiedFrom[localRank])];
  if (topology.underOneSwitch(gpu, duty->nic)) return "";
  return fmt::format("{} and {} share no PCIe switch", topology.nameOf(gpu), topology.nameOf(duty->nic));
}

std::string MachinePlan::inWords() const { return fmt::format("{} ({})", nameOf(program.plan().strategy), reason); }

}  // namespace bps
