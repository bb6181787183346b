#include "src/comm/lanes/data_plane.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <tuple>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/plan/turns.h"

namespace bps {
namespace {

// How long all lanes together wait for flushes, which last microseconds; a call waits meanwhile.
constexpr std::chrono::milliseconds kFlushPatience(500);

}  // namespace

Result<std::unique_ptr<DataPlane>> DataPlane::connect(const DataPlaneArgs& args) {
  const Roster& roster = args.control.roster();
  std::unique_ptr<DataPlane> plane(new DataPlane);
  plane->self_ = roster.ranks[args.control.rank()].machine;
  plane->machines_ = roster.machines.size();
  plane->patience_ = std::chrono::milliseconds(roster.settings.timeoutMs);
  plane->rail_ = roster.ranks[args.control.rank()].localRank;
  const auto plugin =
      args.plugin != nullptr ? args.plugin : BPS_TRY(net::Plugin::load(args.env.netPlugin, roster.jobId));
  const std::optional<int> planned = BPS_TRY(plugin->find(args.nic.name, args.nic.busId));
  const int device = planned.value_or(0);
  const net::DeviceInfo nic = BPS_TRY(plugin->device(device));
  plane->transport_ = plugin->description() + ", " + nic.name;
  plane->nic_ = nic.name;
  plane->gpuWays_ = nic.gpu;
  if (!planned) plane->gpuObstacle_ = fmt::format("NIC {} of the plan is no device of the net plugin", args.nic.name);
  else if (!nic.gpu) plane->gpuObstacle_ = fmt::format("the net plugin's device {} takes host memory only", nic.name);
  // The interface has no way to ask; ours is known to prefer memory.
  if (plugin->description().starts_with("bps ") && !args.env.shmDisable)
    plane->transport_ += ", shared memory inside a machine";
  net::Mesh mesh =
      BPS_TRY(net::Mesh::listening(*plugin, device, {plane->self_, roster.machines.size(), args.plan.owners}));
  BPS_TRY(plane->establish(args, mesh));
  BPS_TRY(plane->build(args, mesh));
  return plane;
}

// A peer that cannot connect closes its listeners, which others then take for the fault: what they saw is worth less
// than what it says of itself, so the hub's word is waited for.
void DataPlane::awaitVerdict(const DataPlaneArgs& args) {
  const std::chrono::milliseconds timeout(args.control.roster().settings.timeoutMs);
  const Deadline patience = Deadline::in(std::min<std::chrono::milliseconds>(std::chrono::seconds(3), timeout));
  while (!args.cancelled() && !patience.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

Status DataPlane::establish(const DataPlaneArgs& args, net::Mesh& mesh) {
  ControlPlane& control = args.control;
  const std::vector<Blob> handles = BPS_TRY(control.exchange(mesh.handles(), args.deadline));
  BPS_TRY(mesh.setPeerHandles(handles));
  const auto peer = [&] { return control.roster().memberOf(mesh.current(), rail_); };
  const auto name = [&] { return control.roster().memberName(peer()); };
  while (true) {
    Result<Progress> progress = mesh.step();
    if (!progress.ok()) {
      const std::string self = control.roster().rankName(control.rank());
      Status failed = std::move(progress).status().within(self + ": connecting with " + name());
      control.suspect(peer(), failed.message());
      awaitVerdict(args);
      return failed;
    }
    if (std::move(progress).value() == Progress::kDone) return {};
    if (args.cancelled()) return {Code::kInvalidUsage, "aborted while connecting"};
    if (args.deadline.passed())
      return failure(Code::kRemote, "no data connection with {} within {:g} s", name(), args.env.timeout.value);
    std::this_thread::sleep_for(std::chrono::microseconds(200));  // start-up only; plugins give nothing to wait on yet
  }
}

Status DataPlane::build(const DataPlaneArgs& args, net::Mesh& mesh) {
  const Roster& roster = args.control.roster();
  const JobPlan& plan = args.plan;
  const size_t machines = roster.machines.size();
  std::vector<SumService::Lane> service(machines);
  lanes_.resize(roster.endpoints());
  const RemoteLane::Shape shape{plan.depth, plan.limits.maxChunkBytes, roster.settings.checksum};
  for (size_t peer = 0; peer < roster.endpoints(); ++peer) {
    if (peer == self_) continue;
    net::Link link = mesh.take(peer);
    if (link.pushIn) service[peer] = {std::move(link.pushIn), std::move(link.answerOut)};
    if (link.pushOut) lanes_[peer] = BPS_TRY(RemoteLane::create(args.buffers, shape, std::move(link)));
  }
  order_ = ownersInTurn(plan.weights, plan.owners, self_, machines);
  if (!plan.owners[self_]) return {};
  ServiceSpec spec;
  spec.machines = machines;
  spec.local = self_;
  spec.order = machinesInTurn(plan.weights, self_, machines);
  spec.depth = plan.depth;
  spec.maxChunkBytes = plan.limits.maxChunkBytes;
  spec.checksum = roster.settings.checksum;
  spec.ranks = roster.ranks.size();
  for (const Machine& machine : roster.machines) spec.summed.push_back(machine.ranks.size() > 1);
  spec.reduceThreads = args.env.reduceThreads;
  spec.patience = std::chrono::milliseconds(roster.settings.timeoutMs);
  spec.nameOf = [&roster](size_t machine) { return roster.endpointName(machine); };
  service_ = BPS_TRY(SumService::create(std::move(spec), std::move(service)));
  lanes_[self_] = std::make_unique<LocalLane>(args.buffers, *service_);
  return {};
}

void DataPlane::submit(Collective& call) {
  for (size_t i = 0; i < call.chunks.size(); ++i) {
    if (!call.chunks[i].direct()) {
      lanes_[call.chunks[i].owner]->submit(call, i);
      continue;
    }
    call.chunks[i].unsent = static_cast<uint32_t>(machines_ - 1);
    for (size_t machine = 0; machine < machines_; ++machine) lanes_[machine]->submit(call, i);
  }
  if (!call.chunks.front().direct()) return;
  // All others wait for it, so it goes before anything is asked for. What fails does so again in step().
  for (size_t m = 1; m <= machines_; ++m) std::ignore = lanes_[(self_ + m) % machines_]->step();
}

bool DataPlane::drained() const {
  return (service_ == nullptr || service_->drained()) &&
         std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane == nullptr || lane->idle(); });
}

// What others wait for goes before what we ask of them. A broken lane does not keep the others from moving: a peer may
// end its connections while the last answers that another waits for are still to be sent.
Result<bool> DataPlane::step() {
  bool moved = false;
  Status broken;
  culprit_.reset();
  const auto note = [&](Result<bool> outcome, std::optional<size_t> endpoint) {
    if (outcome.ok()) {
      moved = std::move(outcome).value() || moved;
    } else if (broken.ok()) {
      broken = std::move(outcome).status();
      culprit_ = endpoint;
    }
  };
  if (service_ != nullptr) {
    Result<bool> served = service_->step();
    note(std::move(served), service_->culprit());
  }
  for (const size_t endpoint : order_) note(lanes_[endpoint]->step(), endpoint);
  if (!broken.ok()) return broken;
  return moved;
}

// What the service waits for says more than that its own machine's lanes wait meanwhile.
std::optional<LastingWait> DataPlane::watch() {
  std::optional<LastingWait> oldest;
  if (service_ != nullptr) oldest = service_->watch();
  if (oldest && oldest->endpoint == self_) oldest.reset();
  for (const size_t endpoint : order_) {
    const std::optional<uint64_t> call = lanes_[endpoint]->watch(patience_);
    if (call && (!oldest || *call < oldest->call)) oldest = {*call, endpoint};
  }
  return oldest;
}

std::vector<bool> DataPlane::carryFrom(const net::GpuRegion& region) {
  std::vector<bool> carried(lanes_.size(), false);
  size_t taken = 0;
  std::string why;  // but for what this machine sums itself
  const Deadline deadline = Deadline::in(kFlushPatience);
  for (const size_t endpoint : order_) {
    const Status taking = lanes_[endpoint]->carryFrom(region, gpuWays_, deadline);
    carried[endpoint] = taking.ok();
    if (taking.ok()) ++taken;
    else if (endpoint != self_) why = taking.message();
  }
  logInfo(Subsystem::kNet,
          "GPUDirect RDMA: {} bytes of GPU memory, {} of {} owners reached without host memory by {}{}{}", region.bytes,
          taken, order_.size(), nic_, why.empty() ? "" : "; the others: ", why);
  return carried;
}

void DataPlane::forEachComm(const std::function<void(net::Comm&)>& use) {
  for (auto& lane : lanes_)
    if (lane != nullptr) lane->forEachComm(use);
  if (service_ != nullptr) service_->forEachComm(use);
}

}  // namespace bps
