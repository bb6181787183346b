#include "src/comm/startup/connect.h"

#include <algorithm>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/comm/local/machine/binding.h"

namespace bps {
namespace {

// Provides a slot for every chunk in the windows of all owners, within fixed limits.
LocalRingShape ringShape(const JobPlan& plan, const Machine& machine) {
  const auto owners = static_cast<size_t>(std::count(plan.owners.begin(), plan.owners.end(), true));
  const size_t chunks = plan.bcube ? bcubeWindow(plan.bcube->k()) : owners * plan.depth;
  const size_t slots = std::clamp<size_t>(chunks, 8, 64);
  return {static_cast<uint32_t>(machine.ranks.size()), static_cast<uint32_t>(slots), plan.limits.maxChunkBytes, 0, 0};
}

// True if a device of the net plugin accepts GPU memory; a single rank then needs a machine plan.
// Loads the net plugin only if the answer depends on the plugin.
Result<bool> canNicReachGpu(Session& session) {
  const Roster& roster = session.control.roster();
  if (session.cuda == nullptr || !session.env.gpuDirect || roster.machines.size() == 1) return false;
  session.plugin = BPS_TRY(net::Plugin::load(session.env.netPlugin, roster.jobId));
  for (int i = 0; i < session.plugin->deviceCount(); ++i)
    if (BPS_TRY(session.plugin->device(i)).gpu) return true;
  return false;
}

Result<std::unique_ptr<const MachinePlan>> planSingleRank(const Session& session, double network) {
  MachineSpec machineSpec = BPS_TRY(makeMachineSpec(session.env, 1, network));
  if (session.cuda != nullptr) machineSpec.devices[0] = session.cuda->busId();
  return MachinePlan::make(machineSpec);
}

// A rank that is alone on its machine needs a machine plan in two cases: the user asks for one, or
// the rank's NIC could access its GPU. In the second case, if no plan can be made, the NIC does not
// access the GPU.
Status setUpSingleRank(Session& session, double network) {
  const Env& env = session.env;
  session.whyNoGpuDirect = "no device of the net plugin accepts GPU memory";
  const bool requested = !env.topologySource().empty() || !env.topoDumpFile.empty() || !env.topoCounters.empty();
  if (!requested && !BPS_TRY(canNicReachGpu(session))) return {};
  Result<std::unique_ptr<const MachinePlan>> made = planSingleRank(session, network);
  if (!requested && !made.ok()) {
    session.whyNoGpuDirect = made.error().message();
    return {};
  }
  auto plan = BPS_TRY(std::move(made));
  session.whyNoGpuDirect = plan->whyNoGpuDirect(0);
  if (!requested && !session.whyNoGpuDirect.empty()) return {};
  session.singleRankTraffic =
      std::make_unique<MachineTraffic>(std::move(plan), std::vector<LinkByteCounters::Counter*>(), 0);
  return {};
}

Status setUpLocalReducer(Session& session, const Machine& machine, double network, Deadline deadline) {
  session.whyNoGpuDirect = "the CPU sums the buffers of the ranks of this machine";
  LocalReducerSpec spec;
  spec.roster = &session.control.roster();
  spec.rank = session.control.rank();
  spec.env = &session.env;
  spec.network = network;
  spec.shape = ringShape(session.plan, machine);
  spec.own = session.staged();
  if (session.cuda != nullptr) spec.device = session.cuda->busId();
  spec.reduceThreads = session.env.reduceThreads;
  spec.bell = session.bell;
  spec.failure = &session.failure.firstError();
  session.local = BPS_TRY(LocalReducer::bootstrap(std::move(spec), deadline));
  return {};
}

// Chooses the rails that all machines have in common.
Result<Rails> negotiateRails(const Session& session, Deadline deadline) {
  const JobPlan& plan = session.plan;
  if (plan.rails <= 1) return Rails();
  const Roster& roster = session.control.roster();
  const LocalPlan& local = session.local->traffic().plan().program.plan();
  const bool leads = session.self().localRank == 0;
  const Blob own = leads ? encodeRailWeights(railWeights(local, plan.rails)) : Blob();
  const std::vector<Blob> gathered = BPS_TRY(session.control.gather(own, deadline));
  std::vector<std::vector<uint64_t>> weights;
  for (const Machine& machine : roster.machines) {
    const uint32_t leader = machine.ranks[0];
    Result<std::vector<uint64_t>> decoded = decodeRailWeights(gathered[leader], plan.rails);
    if (!decoded.ok()) return std::move(decoded).status().within(roster.rankName(leader));
    weights.push_back(std::move(decoded).value());
  }
  return commonRails(weights);
}

// Returns the NIC that the machine plan assigns to this rank. The result is empty if the plan
// assigns none.
NicId plannedNic(const MachinePlan& plan, size_t localRank) {
  const NicAssignment* assignment = plan.assignmentOf(localRank);
  if (assignment == nullptr || assignment->nic == kNoNode) return {};
  const Node& nic = plan.topology.node(assignment->nic);
  return {nic.name, nic.pcie.busId};
}

// Connects the ranks of this machine, chooses the rails and the NIC of this rank, and finds out
// whether that NIC may access GPU memory. Fills in the session, in which the caller has already set
// `plan`.
Status setUpMachine(Session& session, Deadline deadline) {
  const Roster& roster = session.control.roster();
  const RankEntry& self = session.self();
  const Machine& machine = roster.machines[self.machine];
  const double network = workerTraffic(roster.machines.size(), session.plan.shares.workers[self.machine]);
  if (machine.ranks.size() == 1) BPS_TRY(setUpSingleRank(session, network));
  else BPS_TRY(setUpLocalReducer(session, machine, network, deadline));
  session.rails = BPS_TRY(negotiateRails(session, deadline));
  if (session.local != nullptr) session.local->setRails(session.rails);
  if (roster.settings.parameters) session.whyNoGpuDirect = "parameters pass through host memory";
  if (!session.env.gpuDirect) session.whyNoGpuDirect = "BPS_GPUDIRECT is 0";
  if (session.cuda == nullptr) session.whyNoGpuDirect = "there is no CUDA device";
  if (session.traffic() == nullptr) return {};
  const MachinePlan& plan = session.traffic()->plan();
  session.nic = plannedNic(plan, self.localRank);
  session.progressCpus = progressThreadCpus(plan, self.localRank, readCpuAvailability(), session.env.ignoreCpuAffinity);
  return {};
}

// A job runs also if its trace cannot be written.
void startTrace(Session& session) {
  if (session.env.trace.empty()) return;
  const Roster& roster = session.control.roster();
  trace::Header header = trace::headerOf(roster);
  header.number = session.control.rank();
  header.endpoint = session.self().machine;
  header.host = session.self().hostName;
  header.pid = session.self().pid;
  std::string path = trace::expandPath(session.env.trace, fmt::format("{}", header.number));
  auto recorder = trace::Recorder::create(std::move(path), std::move(header), session.control.clockOffset());
  if (recorder.ok()) session.recorder = std::move(recorder).value();
  else logWarn(Subsystem::kInit, "{}; this rank records no trace", recorder.error().message());
}

}  // namespace

Result<std::unique_ptr<ProgressThread>> connect(SessionBase base, Deadline deadline) {
  auto session = std::make_unique<Session>(std::move(base));
  session->plan = BPS_TRY(JobPlan::make(session->control.roster()));
  session->cutter = std::make_unique<CallCutter>(session->control.roster(), session->plan);
  startTrace(*session);
  BPS_TRY(setUpMachine(*session, deadline));
  if (session->cuda != nullptr) session->cuda->start(timeoutOf(session->env));
  return ProgressThread::start(std::move(session), deadline);
}

}  // namespace bps
