// What a Communicator does about its own machine: who is there, who drives the network by which NIC, and whether that
// reaches the GPU.
#include <algorithm>

#include "src/base/format.h"
#include "src/comm/communicator.h"
#include "src/comm/local/binding.h"

namespace bps {
namespace {

// Enough slots for the windows of all owners, and some to copy ahead.
LocalRingShape ringShape(const JobPlan& plan, const Machine& machine) {
  const auto owners = static_cast<size_t>(std::count(plan.owners.begin(), plan.owners.end(), true));
  const size_t slots = std::clamp<size_t>(owners * plan.depth, 8, 64);
  return {static_cast<uint32_t>(machine.ranks.size()), static_cast<uint32_t>(slots), plan.limits.maxChunkBytes, 0, 0};
}

}  // namespace

Status Communicator::setUpLocalReducer(Deadline deadline) {
  const Roster& roster = control_->roster();
  const uint32_t number = roster.ranks[membership_.rank].machine;
  const Machine& machine = roster.machines[number];
  const double network = workerTraffic(roster.machines.size(), plan_.shares.workers[number]);
  if (machine.ranks.size() == 1) {
    const bool asked = !env_.topologySource().empty() || !env_.topoDumpFile.empty() || !env_.topoCounters.empty();
    if (!asked && !BPS_TRY(canNicReachGpu())) return {};
    Result<std::unique_ptr<const MachinePlan>> made = planSingleRank(network);
    if (!asked && !made.ok()) {
      singleRankWhyNoGpuDirect_ = made.error().message();
      return {};
    }
    auto plan = BPS_TRY(std::move(made));
    if (!asked) singleRankWhyNoGpuDirect_ = plan->whyNoGpuDirect(0);
    if (!singleRankWhyNoGpuDirect_.empty()) return {};
    singleRankTraffic_ =
        std::make_unique<MachineTraffic>(std::move(plan), std::vector<LinkByteCounters::Counter*>(), 0);
    return {};
  }
  LocalReducerSpec spec;
  spec.roster = &roster;
  spec.rank = membership_.rank;
  spec.env = &env_;
  spec.network = network;
  spec.shape = ringShape(plan_, machine);
  if (cuda_ != nullptr) spec.own = &cuda_->buffers();
  if (cuda_ != nullptr) spec.device = cuda_->busId();
  spec.reduceThreads = env_.reduceThreads;
  spec.bell = bell_;
  spec.failure = &failure_;
  local_ = BPS_TRY(LocalReducer::bootstrap(std::move(spec), deadline));
  return {};
}

Result<std::unique_ptr<const MachinePlan>> Communicator::planSingleRank(double network) const {
  MachineSpec machineSpec = BPS_TRY(makeMachineSpec(env_, 1, network));
  if (cuda_ != nullptr) machineSpec.devices[0] = cuda_->busId();
  return MachinePlan::make(machineSpec);
}

Status Communicator::chooseRails(Deadline deadline) {
  if (plan_.rails > 1) {
    const Roster& roster = control_->roster();
    const bool leads = roster.ranks[membership_.rank].localRank == 0;
    const LocalPlan& local = local_->traffic().plan().program.plan();
    const Blob word = leads ? encodeRailWeights(railWeights(local, plan_.rails)) : Blob();
    const std::vector<Blob> words = BPS_TRY(control_->gather(word, deadline));
    std::vector<std::vector<uint64_t>> weights;
    for (const Machine& machine : roster.machines) {
      const uint32_t leader = machine.ranks[0];
      Result<std::vector<uint64_t>> its = decodeRailWeights(words[leader], plan_.rails);
      if (!its.ok()) return std::move(its).status().within(roster.rankName(leader));
      weights.push_back(std::move(its).value());
    }
    rails_ = commonRails(weights);
  }
  if (local_ != nullptr) local_->setRails(rails_);
  return {};
}

Result<bool> Communicator::canNicReachGpu() {
  const Roster& roster = control_->roster();
  if (cuda_ == nullptr || !env_.gpuDirect || roster.machines.size() == 1) return false;
  plugin_ = BPS_TRY(net::Plugin::load(env_.netPlugin, roster.jobId));
  for (int i = 0; i < plugin_->deviceCount(); ++i)
    if (BPS_TRY(plugin_->device(i)).gpu) return true;
  return false;
}

std::string Communicator::whyNoGpuDirect() const {
  if (cuda_ == nullptr) return "there is no CUDA device";
  if (!env_.gpuDirect) return "BPS_GPUDIRECT is 0";
  if (local_ != nullptr) return "what the ranks of this machine give is summed by its CPU";
  if (singleRankTraffic_ == nullptr)
    return singleRankWhyNoGpuDirect_.empty() ? "no device of the net plugin takes GPU memory"
                                             : singleRankWhyNoGpuDirect_;
  return singleRankTraffic_->plan().whyNoGpuDirect(control_->roster().ranks[membership_.rank].localRank);
}

// Of the NIC that this rank drives; empty: nobody says which.
NicId Communicator::nicName() const {
  if (traffic() == nullptr) return {};
  const MachinePlan& plan = traffic()->plan();
  const NicAssignment* assignment = plan.assignmentOf(control_->roster().ranks[membership_.rank].localRank);
  if (assignment == nullptr || assignment->nic == kNoNode) return {};
  const Node& nic = plan.topology.node(assignment->nic);
  return {nic.name, nic.pcie.busId};
}

// Where this rank's thread runs.
std::vector<unsigned> Communicator::cpus() const {
  if (traffic() == nullptr) return {};
  const size_t localRank = control_->roster().ranks[membership_.rank].localRank;
  return progressThreadCpus(traffic()->plan(), localRank, readCpuAvailability(), env_.ignoreCpuAffinity);
}

}  // namespace bps
