#include "src/comm/local/machine_plan.h"

#include <numeric>

#include "src/base/format.h"
#include "src/base/log.h"
#include "topo/detect/detect.h"
#include "topo/source.h"
#include "topo/synthetic.h"
#include "topo/xml/files.h"

namespace bps {
namespace {

constexpr const char* kUnknownMachine = "cpu";

Result<Topology> topologyOf(const Env& env) {
  Result<Topology> topology = processTopology(env);
  if (topology.ok() || !env.topoFile.empty()) return topology;
  logInfo(Subsystem::kTopo, "{}; it counts as one CPU", topology.error().message());
  const Draft draft = BPS_TRY(readSynthetic(kUnknownMachine));
  return draft.build();
}

// Ranks beyond the machine's GPUs are in host memory.
std::vector<int> seatsOf(const MachineBrief& brief, const Topology& topology) {
  std::vector<int> gpus(brief.ranks, -1);
  const size_t onGpus = brief.onGpus ? std::min(gpus.size(), topology.all(NodeKind::kGpu).size()) : 0;
  std::iota(gpus.begin(), gpus.begin() + static_cast<std::ptrdiff_t>(onGpus), 0);
  return gpus;
}

}  // namespace

Blob encode(const MachineBrief& brief) {
  return WireWriter()
      .put(brief.topology)
      .put(brief.strategy)
      .put(static_cast<uint8_t>(brief.described))
      .put(static_cast<uint8_t>(brief.onGpus))
      .put(brief.ranks)
      .put(brief.network)
      .bytes();
}

Result<MachineBrief> decodeMachineBrief(std::span<const uint8_t> bytes) {
  WireReader reader(bytes);
  MachineBrief brief;
  brief.topology = reader.getString();
  brief.strategy = reader.getString();
  brief.described = reader.get<uint8_t>() != 0;
  brief.onGpus = reader.get<uint8_t>() != 0;
  brief.ranks = reader.get<uint32_t>();
  brief.network = reader.getDouble();
  BPS_TRY(reader.finish("brief of the local leader"));
  return brief;
}

Result<MachineBrief> briefOf(const Env& env, size_t ranks, double network, bool onDevices) {
  MachineBrief brief;
  brief.topology = writeNcclXml(BPS_TRY(topologyOf(env)));
  brief.strategy = env.strategy;
  brief.described = !env.topoFile.empty();
  brief.onGpus = brief.described && !onDevices;
  brief.ranks = static_cast<uint32_t>(ranks);
  brief.network = network;
  return brief;
}

Result<std::unique_ptr<const MachinePlan>> MachinePlan::make(const MachineBrief& brief) {
  const Draft draft = BPS_TRY(readMachineXml(brief.topology));
  Topology topology = BPS_TRY(draft.build());
  LocalJob job;
  job.gpus = seatsOf(brief, topology);
  job.network = brief.network;
  job.strategy = BPS_TRY(parseStrategy(brief.strategy));
  const Decision decision = BPS_TRY(planLocal(topology, job));
  return std::unique_ptr<const MachinePlan>(
      new MachinePlan{std::move(topology), LocalProgram(decision.best().plan), decision.reason, brief.described});
}

std::string MachinePlan::inWords() const { return fmt::format("{} ({})", nameOf(program.plan().strategy), reason); }

}  // namespace bps
