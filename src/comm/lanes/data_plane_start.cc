// The start of a data plane: until all lanes are connected.
#include <algorithm>
#include <chrono>
#include <thread>

#include "src/base/format.h"
#include "src/comm/lanes/bcube/bcube_network.h"
#include "src/comm/lanes/data_plane.h"
#include "src/plan/send_order.h"
#include "src/service/parameters/param_service.h"
#include "src/service/sum_service.h"

namespace bps {

DataPlane::DataPlane(const DataPlaneSpec& spec) : spec_(spec) {
  const Roster& roster = spec.control.roster();
  self_ = roster.ranks[spec.control.rank()].machine;
  rail_ = roster.ranks[spec.control.rank()].localRank;
}

Result<std::unique_ptr<DataPlane>> DataPlane::connect(const DataPlaneSpec& spec) {
  const Roster& roster = spec.control.roster();
  std::unique_ptr<DataPlane> plane(new DataPlane(spec));
  if (plane->spec_.plugin == nullptr)
    plane->spec_.plugin = BPS_TRY(net::Plugin::load(spec.env.netPlugin, roster.jobId));
  const std::shared_ptr<net::Plugin>& plugin = plane->spec_.plugin;
  if (spec.counters != nullptr) plugin->countInto(spec.counters);
  if (spec.plan.bcube) {
    BPS_TRY(plane->connectOnBcube());
    return plane;
  }
  const std::optional<int> planned = BPS_TRY(plugin->find(spec.nic.name, spec.nic.busId));
  const int device = plane->nic_.device = planned.value_or(0);
  const net::DeviceInfo nic = BPS_TRY(plugin->device(device));
  plane->nic_.transport = plugin->description() + ", " + nic.name;
  plane->nic_.name = nic.name;
  plane->nic_.gpu = nic.gpu;
  if (!planned)
    plane->nic_.gpuObstacle = fmt::format("NIC {} of the plan is not a device of the net plugin", spec.nic.name);
  else if (!nic.gpu)
    plane->nic_.gpuObstacle = fmt::format("device {} of the net plugin accepts host memory only", nic.name);
  // The plugin interface does not report whether a connection uses shared memory. The plugins of
  // bps prefer shared memory.
  if (plugin->description().starts_with("bps ") && !spec.env.shmDisable)
    plane->nic_.transport += ", shared memory inside a machine";
  const net::MeshShape shape{plane->self_, roster.machines.size(), spec.plan.owners, spec.usesExchangePath()};
  net::Mesh mesh = BPS_TRY(net::Mesh::createListening(*plugin, device, shape));
  const std::vector<Blob> handles = BPS_TRY(spec.control.exchange(mesh.handles(), spec.deadline));
  BPS_TRY(mesh.setPeerHandles(handles));
  BPS_TRY(plane->connectMesh(mesh, spec.deadline));
  BPS_TRY(plane->createLanes(spec, mesh));
  return plane;
}

// Waits for the failure that the hub reports. A peer that cannot connect closes its listeners, so
// other ranks fail only as a consequence. The peer's own report explains the cause.
void DataPlane::waitForHubFailure() const {
  const std::chrono::milliseconds peerTimeout(spec_.control.roster().settings.timeoutMs);
  const Deadline deadline = Deadline::in(std::min<std::chrono::milliseconds>(std::chrono::seconds(3), peerTimeout));
  while (!spec_.cancelled() && !deadline.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

Status DataPlane::connectMesh(net::Mesh& mesh, Deadline deadline) {
  ControlPlane& control = spec_.control;
  const auto peer = [&] { return control.roster().memberOf(mesh.current(), rail_); };
  const auto name = [&] { return control.roster().memberName(peer()); };
  while (true) {
    Result<Progress> progress = mesh.step();
    if (!progress.ok()) {
      const std::string self = control.roster().rankName(control.rank());
      Status failed = std::move(progress).status().within(self + ": connecting with " + name());
      control.suspect(peer(), failed.message());
      waitForHubFailure();
      return failed;
    }
    if (std::move(progress).value() == Progress::kDone) return {};
    if (spec_.cancelled()) return {Code::kInvalidUsage, "aborted while connecting"};
    if (deadline.passed())
      return failure(Code::kRemote, "no data connection with {} within {:g} s", name(), spec_.env.timeout.value);
    std::this_thread::sleep_for(
        std::chrono::microseconds(200));  // a plugin has no descriptor to wait for while it connects
  }
}

Status DataPlane::connectOnBcube() {
  const Roster& roster = spec_.control.roster();
  const std::optional<FabricSpec> fabric = BPS_TRY(parseFabric(spec_.env.fabric));
  if (!fabric || fabric->shape.text() != spec_.plan.bcube->text())
    return failure(Code::kInvalidUsage, "{}: BPS_FABRIC is {}, but rank 0 has a {}",
                   roster.rankName(spec_.control.rank()), fabric ? fabric->shape.text() : "unset",
                   spec_.plan.bcube->text());
  const FabricPlace place = BPS_TRY(findPlace(*fabric, interfaceAddresses(), spec_.env.socketIfname));
  BcubeNetwork network = BPS_TRY(connectBcube({*spec_.plugin, spec_.control, place, spec_.deadline, spec_.cancelled}));
  nic_.name = network.nics;
  nic_.transport = fmt::format("{}, {}, {} {}", spec_.plugin->description(), network.nics, place.shape.text(),
                               place.shape.addressText(place.address));
  nic_.gpuObstacle = "BPS_FABRIC: all blocks pass through host memory";
  BcubeSpec spec(Summation::of(roster, spec_.env.reduceThreads));
  spec.shape = place.shape;
  spec.address = place.address;
  spec.machineAt = std::move(network.machineAt);
  for (const auto& level : place.levels) spec.nics.push_back(level.interface);
  spec.maxBlockBytes = spec_.plan.limits.maxChunkBytes;
  spec.window = bcubeWindow(place.shape.k());
  spec.recorder = recorder(trace::kExchangePath);
  lanes_.resize(roster.endpoints());
  ownerless_.bcube = BPS_TRY(BcubePath::create(spec_.buffers, std::move(spec), std::move(network.neighbours)));
  return {};
}

Status DataPlane::createLanes(const DataPlaneSpec& spec, net::Mesh& mesh) {
  const Roster& roster = spec.control.roster();
  const JobPlan& plan = spec.plan;
  const size_t machines = roster.machines.size();
  std::vector<ChunkService::Lane> service(machines);
  std::vector<net::PeerConnections> exchange(machines);
  lanes_.resize(roster.endpoints());
  if (roster.settings.parameters) createTakeover();
  for (size_t peer = 0; peer < roster.endpoints(); ++peer) {
    if (peer == self_) continue;
    net::PeerConnections connections = mesh.take(peer);
    if (connections.pushIn) service[peer] = {std::move(connections.pushIn), std::move(connections.answerOut)};
    if (peer < machines) {
      exchange[peer].exchangeOut = std::move(connections.exchangeOut);
      exchange[peer].exchangeIn = std::move(connections.exchangeIn);
    }
    if (connections.pushOut) lanes_[peer] = BPS_TRY(createLane(peer, std::move(connections)));
  }
  sendOrder_ = sendOrder(plan.weights, plan.owners, self_, machines);
  if (spec.usesExchangePath())
    ownerless_.exchange = BPS_TRY(ExchangePath::create(spec.buffers, exchangeSpec(), exchange));
  if (!plan.owners[self_]) return {};
  return createService(spec, std::move(service));
}

Result<std::unique_ptr<Lane>> DataPlane::createLane(size_t owner, net::PeerConnections connections) const {
  const Roster& roster = spec_.control.roster();
  const RemoteLane::Shape shape{
      spec_.plan.depth,
      spec_.plan.limits.maxChunkBytes,
      roster.settings.checksum,
      roster.isServer(owner) && !roster.settings.parameters,
      recorder(owner),
      roster.settings.parameters ? headerBytesWithClock(roster.machines.size()) : kDataHeaderBytes};
  return RemoteLane::create(spec_.buffers, shape, std::move(connections));
}

Status DataPlane::createService(const DataPlaneSpec& spec, std::vector<ChunkService::Lane> lanes) {
  const Roster& roster = spec.control.roster();
  if (roster.settings.parameters) {
    ParamSpec params(Summation::of(roster, spec.env.reduceThreads));
    params.local = self_;
    params.endpoints = roster.endpoints();
    params.depth = spec.plan.depth;
    params.maxChunkBytes = spec.plan.limits.maxChunkBytes;
    params.staleness = roster.settings.staleness;
    params.store = spec.store;
    service_ = BPS_TRY(ParamService::create(std::move(params), std::move(lanes)));
    lanes_[self_] = std::make_unique<LocalLane>(spec.buffers, *service_, recorder(self_));
    return {};
  }
  ServiceSpec service(Summation::of(roster, spec.env.reduceThreads));
  service.local = self_;
  service.order = answerOrder(spec.plan.weights, self_, roster.machines.size());
  service.depth = spec.plan.depth;
  service.maxChunkBytes = spec.plan.limits.maxChunkBytes;
  service.recorder = recorder(self_);
  service.measuresWaits = spec.counters != nullptr;
  service_ = BPS_TRY(SumService::create(std::move(service), std::move(lanes)));
  lanes_[self_] = std::make_unique<LocalLane>(spec.buffers, *service_, recorder(self_));
  return {};
}

ExchangeSpec DataPlane::exchangeSpec() const {
  ExchangeSpec exchange(Summation::of(spec_.control.roster(), spec_.env.reduceThreads));
  exchange.self = self_;
  exchange.maxChunkBytes = spec_.plan.limits.exchangeChunkBytes;
  exchange.recorder = recorder(trace::kExchangePath);
  return exchange;
}

void DataPlane::createTakeover() {
  const Roster& roster = spec_.control.roster();
  const auto submitPart = [this](Collective& call) {
    call.window = spec_.plan.depth;
    call.firstRound = rounds_;
    for (size_t i = 0; i < call.chunks.size(); ++i) submit(call, i);
  };
  takeover_ = std::make_unique<OwnerTakeover>(
      OwnerTakeoverSpec{self_, roster.machines.size(), spec_.plan.owners, spec_.copies, submitPart});
}

}  // namespace bps
