#include "src/comm/local/machine/machine_plan.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/plan/rails.h"
#include "topo/detect/detect.h"
#include "topo/load_topology.h"
#include "topo/synthetic.h"
#include "topo/xml/topology_xml.h"

namespace bps {
namespace {

constexpr const char* kUnknownMachine = "cpu";
constexpr off_t kMaxSpecBytes = 64 << 20;
constexpr double kMaxNetworkFactor = 1e3;  // usual factors are at most 2; a factor above the limit is an error

Result<Topology> loadTopologyOrSingleCpu(const Env& env) {
  Result<Topology> topology = loadAndDumpTopology(env);
  if (topology.ok() || !env.topoFile.empty()) return topology;
  logInfo(Subsystem::kTopo, "{}; this machine counts as one CPU", topology.error().message());
  const TopologyBuilder builder = BPS_TRY(readSynthetic(kUnknownMachine));
  return builder.build();
}

// Returns the GPU of each rank, which is the GPU with the bus id of the rank's device. If the user
// describes the machine and there is no such GPU, the rank gets the GPU with the rank's number. -1
// means that the rank has no GPU.
std::vector<int> gpusOfRanks(const std::vector<std::string>& devices, const Topology& topology, bool userDescribed) {
  const std::vector<NodeId>& there = topology.all(NodeKind::kGpu);
  std::vector<int> gpus(devices.size(), -1);
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    if (userDescribed && rank < there.size()) gpus[rank] = static_cast<int>(rank);
    for (size_t gpu = 0; gpu < there.size(); ++gpu)
      if (!devices[rank].empty() && topology.node(there[gpu]).pcie.busId == devices[rank])
        gpus[rank] = static_cast<int>(gpu);
  }
  return gpus;
}

}  // namespace

Blob encode(const MachineSpec& machineSpec) {
  WireWriter writer;
  writer.put(machineSpec.topology)
      .put(machineSpec.strategy)
      .put(static_cast<uint8_t>(machineSpec.userDescribed))
      .put(machineSpec.network);
  writer.put(static_cast<uint32_t>(machineSpec.devices.size()));
  for (const std::string& device : machineSpec.devices) writer.put(device);
  return writer.bytes();
}

Result<MachineSpec> decodeMachineSpec(std::span<const uint8_t> bytes) {
  WireReader reader(bytes);
  MachineSpec machineSpec;
  machineSpec.topology = reader.getString();
  machineSpec.strategy = reader.getString();
  machineSpec.userDescribed = reader.get<uint8_t>() != 0;
  machineSpec.network = reader.getDouble();
  machineSpec.devices.resize(reader.getCount(sizeof(uint32_t)));
  for (std::string& device : machineSpec.devices) device = reader.getString();
  BPS_TRY(reader.finish("machine spec of the local leader"));
  if (!(machineSpec.network >= 0 && machineSpec.network <= kMaxNetworkFactor))
    return failure(Code::kRemote,
                   "machine spec of the local leader: {} network bytes per buffer byte, expected 0 to {}",
                   machineSpec.network, kMaxNetworkFactor);
  return machineSpec;
}

Result<UniqueFd> writeSpecFile(const MachineSpec& machineSpec) {
  const Blob bytes = encode(machineSpec);
  UniqueFd file(::memfd_create("bps-machine", MFD_CLOEXEC));
  if (!file || ::pwrite(file.get(), bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return systemFailure("memory for the machine spec", errno);
  return file;
}

Result<MachineSpec> readSpecFile(const UniqueFd& file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return systemFailure("fstat of the local leader's machine spec", errno);
  if (status.st_size > kMaxSpecBytes)
    return failure(Code::kRemote, "the local leader's machine spec has {} bytes, expected at most {}", status.st_size,
                   kMaxSpecBytes);
  Blob bytes(static_cast<size_t>(status.st_size));
  if (::pread(file.get(), bytes.data(), bytes.size(), 0) != status.st_size)
    return systemFailure("reading the local leader's machine spec", errno);
  return decodeMachineSpec(bytes);
}

Result<MachineSpec> makeMachineSpec(const Env& env, size_t ranks, double network) {
  MachineSpec machineSpec;
  machineSpec.topology = writeNcclXml(BPS_TRY(loadTopologyOrSingleCpu(env)));
  machineSpec.strategy = env.strategy;
  machineSpec.userDescribed = !env.topoFile.empty();
  machineSpec.devices.resize(ranks);
  machineSpec.network = network;
  return machineSpec;
}

Result<std::unique_ptr<const MachinePlan>> MachinePlan::make(const MachineSpec& machineSpec) {
  const TopologyBuilder builder = BPS_TRY(readMachineXml(machineSpec.topology));
  Topology topology = BPS_TRY(builder.build());
  LocalPlanRequest job;
  const bool copied = std::any_of(machineSpec.devices.begin(), machineSpec.devices.end(),
                                  [](const std::string& device) { return !device.empty(); });
  job.gpus = gpusOfRanks(machineSpec.devices, topology, machineSpec.userDescribed);
  job.bufferLocation = copied ? BufferLocation::kHostNextToGpus : BufferLocation::kOnGpus;
  job.network = machineSpec.network;
  job.strategy = BPS_TRY(parseStrategy(machineSpec.strategy));
  const Decision decision = BPS_TRY(planLocal(topology, job));
  std::vector<int> stagedGpu = copied ? job.gpus : std::vector<int>(job.gpus.size(), -1);
  return std::unique_ptr<const MachinePlan>(
      new MachinePlan{std::move(topology), LocalProgram(decision.best().plan), decision.reason, std::move(stagedGpu)});
}

const NicAssignment* MachinePlan::assignmentOf(size_t localRank) const {
  const LocalPlan& plan = program.plan();
  const NicAssignment* first = bps::assignmentOf(plan, localRank);
  if (stagedGpu.size() > 1 || stagedGpu[localRank] < 0) return first;
  const NodeId gpu = topology.all(NodeKind::kGpu)[static_cast<size_t>(stagedGpu[localRank])];
  for (const NicAssignment& assignment : plan.assignments)
    if (assignment.rank == localRank && assignment.nic != kNoNode && topology.shareSwitch(gpu, assignment.nic))
      return &assignment;
  return first;
}

std::string MachinePlan::whyNoGpuDirect(size_t localRank) const {
  const NicAssignment* assignment = assignmentOf(localRank);
  if (stagedGpu[localRank] < 0) return "the machine's topology has no such GPU";
  if (assignment == nullptr || assignment->nic == kNoNode) return "the machine's topology has no NIC for it";
  const NodeId gpu = topology.all(NodeKind::kGpu)[static_cast<size_t>(stagedGpu[localRank])];
  if (topology.shareSwitch(gpu, assignment->nic)) return "";
  return fmt::format("{} and {} share no PCIe switch", topology.nameOf(gpu), topology.nameOf(assignment->nic));
}

std::string MachinePlan::describe() const { return fmt::format("{} ({})", nameOf(program.plan().strategy), reason); }

}  // namespace bps
