#include "src/comm/lanes/data_plane.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <thread>
#include <tuple>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/comm/lanes/bcube/bcube_network.h"
#include "src/comm/lanes/substitute_lane.h"
#include "src/plan/send_order.h"
#include "src/service/param_service.h"
#include "src/service/sum_service.h"

namespace bps {
namespace {

// The time that all lanes together may spend on flushes while a call waits. A flush makes received
// data visible in GPU memory and takes microseconds.
constexpr std::chrono::milliseconds kFlushTimeout(500);

}  // namespace

DataPlane::DataPlane(const DataPlaneSpec& spec) : spec_(spec) {
  const Roster& roster = spec.control.roster();
  self_ = roster.ranks[spec.control.rank()].machine;
  peerTimeout_ = std::chrono::milliseconds(roster.settings.timeoutMs);
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
  const Deadline deadline = Deadline::in(std::min<std::chrono::milliseconds>(std::chrono::seconds(3), peerTimeout_));
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
  takeover_.lost.resize(roster.endpoints());
  ownedBy_.assign(roster.endpoints(), std::vector<bool>(roster.endpoints()));
  takeover_.actingOwner.resize(roster.endpoints());
  std::iota(takeover_.actingOwner.begin(), takeover_.actingOwner.end(), size_t{0});
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

Result<std::unique_ptr<net::Mesh>> DataPlane::listenFor(size_t endpoint) const {
  net::MeshShape shape{self_, spec_.control.roster().machines.size(), std::vector<bool>(lanes_.size())};
  shape.owners[endpoint] = true;
  return std::make_unique<net::Mesh>(BPS_TRY(net::Mesh::createListening(*spec_.plugin, nic_.device, std::move(shape))));
}

Status DataPlane::prepareLane(size_t endpoint, net::Mesh& mesh) {
  change_.endpoint = endpoint;
  change_.next = BPS_TRY(createLane(endpoint, mesh.take(endpoint)));
  return {};
}

std::vector<Lane::Work> DataPlane::work() const {
  std::vector<Lane::Work> work;
  for (const auto& lane : lanes_) work.push_back(lane != nullptr ? lane->work() : Lane::Work());
  return work;
}

void DataPlane::changeLane(size_t endpoint, const std::vector<uint64_t>& weights) {
  change_.previous = std::move(lanes_[endpoint]);
  lanes_[endpoint] = std::move(change_.next);
  std::vector<bool> owners;
  for (const auto& lane : lanes_) owners.push_back(lane != nullptr);
  sendOrder_ = sendOrder(weights, owners, self_, spec_.control.roster().machines.size());
}

void DataPlane::dropLanes(const UseComm& release) {
  for (std::unique_ptr<Lane>* lane : {&change_.next, &change_.previous}) {
    if (*lane != nullptr) (*lane)->forEachComm(release);
    lane->reset();
  }
}

Result<DataPlane::EndedLane> DataPlane::endLane(size_t endpoint, const std::function<void(net::Comm&)>& release) {
  std::unique_ptr<Lane>& lane = newestLane(endpoint);
  if (lane == nullptr)
    return failure(Code::kInternal, "no lane to {}, which is lost", spec_.control.roster().endpointName(endpoint));
  lane->forEachComm(release);
  std::optional<LaneRemains> remains = lane->takeRemains();
  if (!remains)
    return failure(Code::kRemote, "the calls with {} use GPUDirect RDMA (BPS_GPUDIRECT), which cannot go on without it",
                   spec_.control.roster().endpointName(endpoint));
  lane = std::make_unique<LostLane>(spec_.buffers);
  for (const SubmittedChunk& chunk : remains->chunks) lane->submit(*chunk.call, chunk.index);
  const size_t machines = spec_.control.roster().machines.size();
  const net::MeshShape shape{self_, machines, std::vector<bool>(machines), true};
  return EndedLane{*std::move(remains),
                   std::make_unique<net::Mesh>(BPS_TRY(net::Mesh::createListening(*spec_.plugin, nic_.device, shape)))};
}

Status DataPlane::replaceLane(size_t endpoint, EndedLane ended, Recovery recovery, Deadline deadline) {
  LaneRemains& remains = ended.remains;
  if (remains.retired - recovery.from > remains.sums.size())
    return failure(Code::kInternal, "recovery: chunk {} of {} is needed again, but only the last {} sums are kept",
                   recovery.from, remains.retired, remains.sums.size());
  BPS_TRY(ended.mesh->setPeerHandles(recovery.handles));
  BPS_TRY(connectMesh(*ended.mesh, deadline));
  std::vector<net::PeerConnections> connections;
  for (size_t peer = 0; peer < recovery.handles.size(); ++peer) connections.push_back(ended.mesh->take(peer));
  ExchangeSpec spec = exchangeSpec();
  spec.maxChunkBytes = spec_.plan.limits.maxChunkBytes;
  spec.sumHolders = std::move(recovery.sumHolders);
  spec.recorder = {};  // its chunks have numbers of their own
  spec.replacesLane = true;
  auto path = BPS_TRY(ExchangePath::create(spec_.buffers, std::move(spec), connections));
  const auto needed = static_cast<std::ptrdiff_t>(remains.retired - recovery.from);
  for (auto sum = remains.sums.end() - needed; sum != remains.sums.end(); ++sum) path->submit(std::move(*sum));
  for (const SubmittedChunk& chunk : remains.chunks) path->submit(chunk);
  newestLane(endpoint) = std::make_unique<SubstituteLane>(spec_.buffers, std::move(path));
  return {};
}

void DataPlane::submit(Collective& call) {
  if (ownerless_.bcube != nullptr) return ownerless_.bcube->submit(call);
  if (call.chunks.front().usesExchangePath()) {
    ownerless_.exchange->submit(call);
    return;
  }
  call.firstRound = rounds_;
  rounds_ += call.chunks.back().round + 1;
  if (ownerless_.exchange != nullptr) ownerless_.exchange->submittedToLanes(call.call, rounds_);
  for (size_t i = 0; i < call.chunks.size(); ++i) submit(call, i);
}

// A barrier, unlike any other request, is for the owner itself.
void DataPlane::submit(Collective& call, size_t index) {
  const size_t owner = call.chunks[index].owner;
  if (call.call.op == static_cast<uint8_t>(CallOp::kParamBarrier) && takeover_.lost[owner])
    return spec_.buffers.finished(call, index);
  lanes_[call.param ? takeover_.actingOwner[owner] : owner]->submit(call, index);
}

size_t DataPlane::nextLiving(size_t endpoint) const {
  const size_t machines = spec_.control.roster().machines.size();
  size_t next = endpoint % machines;
  do next = (next + 1) % machines;
  while (takeover_.lost[next]);
  return next;
}

void DataPlane::loseOwner(size_t endpoint, const std::function<void(net::Comm&)>& release) {
  const bool wasFirst = nextLiving(spec_.control.roster().machines.size() - 1) == self_;
  takeover_.lost[endpoint] = true;
  if (service_ != nullptr && endpoint < spec_.control.roster().machines.size()) service_->lose(endpoint);
  std::vector<bool>& moved = ownedBy_[endpoint];
  for (size_t owner = 0; owner < lanes_.size(); ++owner) moved[owner] = takeover_.actingOwner[owner] == endpoint;
  if (lanes_[endpoint] != nullptr) {
    lanes_[endpoint]->forEachComm(release);
    const std::optional<LaneRemains> remains = lanes_[endpoint]->takeRemains();
    lanes_[endpoint].reset();
    std::erase(sendOrder_, endpoint);
    for (size_t owner = 0; owner < lanes_.size(); ++owner)
      if (moved[owner]) takeover_.actingOwner[owner] = nextLiving(owner);
    restore(moved);
    for (const SubmittedChunk& chunk : remains->chunks) {
      const auto op = static_cast<CallOp>(chunk.call->call.op);
      if (op == CallOp::kParamRestore) spec_.buffers.finished(*chunk.call, chunk.index);
      else submit(*chunk.call, chunk.index);
    }
  }
  settle(endpoint, wasFirst);
}

std::unique_ptr<Collective> DataPlane::request(CallOp op, const ParamCopies::Key& key,
                                               const ParamCopies::Copy& copy) const {
  auto call = std::make_unique<Collective>();
  call->call.count = copy.count;
  call->call.type = static_cast<uint8_t>(copy.type);
  call->call.op = static_cast<uint8_t>(op);
  call->chunks.push_back({copy.owner, 0, copy.count * elementBytes(copy.type)});
  call->param = ParamCall{key.first, 0, key.second};
  call->window = spec_.plan.depth;
  call->rounds = call->remaining = 1;
  call->firstRound = rounds_;
  return call;
}

// Sends this machine's copies of the parts of these owners to the machines that have taken them over.
void DataPlane::restore(const std::vector<bool>& owners) {
  for (const auto& [key, copy] : spec_.copies->parts()) {
    if (!owners[copy->owner]) continue;
    takeover_.sent.push_back(request(CallOp::kParamRestore, key, *copy));
    Collective& call = *takeover_.sent.back();
    call.send = copy->value.empty() ? nullptr : copy->value.data();
    call.recv = const_cast<uint8_t*>(call.send);  // the answer is empty
    call.param->restored = copy->clock;
    submit(call, 0);
  }
}

// The first living machine settles the last pushes of a lost one. If it is lost itself, the next machine does this for
// all that are lost.
void DataPlane::settle(size_t lost, bool wasFirst) {
  const size_t machines = spec_.control.roster().machines.size();
  if (nextLiving(machines - 1) != self_) return;
  for (size_t machine = 0; machine < machines; ++machine)
    if (takeover_.lost[machine] && (machine == lost || !wasFirst)) ask(static_cast<uint32_t>(machine));
}

void DataPlane::ask(uint32_t machine) {
  Settlement settlement;
  settlement.machine = machine;
  for (const auto& [key, copy] : spec_.copies->parts()) {
    settlement.parts.push_back({key, copy, request(CallOp::kParamAsk, key, *copy)});
    settlement.parts.back().call->param->machine = machine;
    submit(*settlement.parts.back().call, 0);
  }
  settlements_.push_back(std::move(settlement));
}

// When all owners have answered, takes back the pushes that some part does not contain. A part that the lost machine
// owned goes on from the newest copy, and may contain fewer of its pushes than the other parts.
void DataPlane::stepSettlements() {
  while (!settlements_.empty()) {
    Settlement& settled = settlements_.front();
    if (std::any_of(settled.parts.begin(), settled.parts.end(),
                    [](const auto& part) { return part.call->remaining > 0; }))
      return;
    const std::vector<bool>& own = ownedBy_[settled.machine];
    std::map<uint32_t, uint32_t> whole;  // by parameter: the pushes that all parts contain
    for (const Settlement::Asked& part : settled.parts) {
      if (own[part.copy->owner]) continue;
      const uint32_t pushes = part.call->param->progress->of(settled.machine);
      const auto [entry, first] = whole.try_emplace(part.key.first, pushes);
      if (!first) entry->second = std::min(entry->second, pushes);
    }
    for (const Settlement::Asked& part : settled.parts) {
      const auto entry = whole.find(part.key.first);
      const uint32_t pushes = part.call->param->progress->of(settled.machine);
      if (entry == whole.end() || pushes <= entry->second) continue;
      takeover_.sent.push_back(request(CallOp::kParamUndo, part.key, *part.copy));
      Collective& undo = *takeover_.sent.back();
      undo.param->machine = settled.machine;
      undo.param->push = pushes;
      submit(undo, 0);
    }
    settlements_.pop_front();
  }
}

uint64_t DataPlane::oldestRound() const {
  uint64_t oldest = Lane::kNoRound;
  for (const size_t endpoint : sendOrder_) oldest = std::min(oldest, lanes_[endpoint]->oldestRound());
  return oldest;
}

bool DataPlane::drained() const {
  return (service_ == nullptr || service_->drained()) &&
         (ownerless_.exchange == nullptr || ownerless_.exchange->idle()) &&
         (ownerless_.bcube == nullptr || ownerless_.bcube->idle()) &&
         std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane == nullptr || lane->idle(); });
}

// The summation service and the exchange path make their steps first, because peers wait for them. If
// one lane fails, the other lanes still move. One peer may close its connections while another peer still waits for its
// last answers.
Result<bool> DataPlane::step() {
  bool moved = false;
  while (!takeover_.sent.empty() && takeover_.sent.front()->remaining == 0) takeover_.sent.pop_front();
  stepSettlements();
  Status broken;
  failedEndpoint_.reset();
  const auto mergeOutcome = [&](Result<bool> outcome, std::optional<size_t> endpoint) {
    if (outcome.ok()) {
      moved = std::move(outcome).value() || moved;
    } else if (broken.ok()) {
      broken = std::move(outcome).status();
      failedEndpoint_ = endpoint;
    }
  };
  if (ownerless_.bcube != nullptr) {
    Result<bool> stepped = ownerless_.bcube->step();
    mergeOutcome(std::move(stepped), ownerless_.bcube->failedMachine());
  }
  if (service_ != nullptr) {
    Result<bool> served = service_->step();
    mergeOutcome(std::move(served), service_->failedMachine());
  }
  const uint64_t oldest = oldestRound();
  if (ownerless_.exchange != nullptr) {
    Result<bool> exchanged = ownerless_.exchange->step(oldest);
    mergeOutcome(std::move(exchanged), ownerless_.exchange->failedMachine());
  }
  for (const size_t endpoint : sendOrder_)
    if (Lane& lane = *lanes_[endpoint]; !lane.idle()) {
      Result<bool> stepped = lane.step(oldest);
      mergeOutcome(std::move(stepped), lane.failedEndpoint(endpoint));
    }
  if (!broken.ok()) return broken;
  return moved;
}

// The lanes stay in step, so a lane whose owner cannot be reached soon stops all lanes of all machines. The cause is
// the lane that is furthest behind. The lane to this machine's own summation service reports no wait; the service
// reports the peer for which it waits.
std::optional<EndpointWait> DataPlane::checkWait() {
  if (ownerless_.bcube != nullptr) return ownerless_.bcube->checkWait();
  const std::optional<EndpointWait> exchange =
      ownerless_.exchange != nullptr ? ownerless_.exchange->checkWait() : std::nullopt;
  std::optional<EndpointWait> served = service_ != nullptr ? service_->checkWait() : std::nullopt;
  if (served && served->endpoint == self_) served.reset();
  std::optional<EndpointWait> waits;
  uint64_t furthestBehind = Lane::kNoRound;
  for (const size_t endpoint : sendOrder_) {
    Lane& lane = *lanes_[endpoint];
    const std::optional<uint64_t> call = lane.checkWait(spec_.control.roster().waitReportTime());
    if (lane.oldestRound() >= furthestBehind || !(endpoint == self_ ? served.has_value() : call.has_value())) continue;
    furthestBehind = lane.oldestRound();
    waits = endpoint == self_ ? *served : EndpointWait{*call, lane.awaitedEndpoint(endpoint)};
  }
  if (!waits || (exchange && exchange->call < waits->call)) return exchange ? exchange : served;
  return waits;
}

void DataPlane::addPeerWaits(std::vector<PeerWait>& waits) const {
  if (service_ != nullptr) service_->addPeerWaits(waits);
  if (ownerless_.exchange != nullptr) ownerless_.exchange->addPeerWaits(waits);
  if (ownerless_.bcube != nullptr) ownerless_.bcube->addPeerWaits(waits);
  for (const size_t endpoint : sendOrder_)
    lanes_[endpoint]->addPeerWaits(spec_.control.roster().endpointName(endpoint), waits);
}

std::vector<bool> DataPlane::registerGpuRegion(const net::GpuRegion& region) {
  std::vector<bool> registered(lanes_.size(), false);
  size_t registeredCount = 0;
  std::string why;  // failure with an owner on another machine
  const Deadline deadline = Deadline::in(kFlushTimeout);
  for (const size_t endpoint : sendOrder_) {
    const Status registering = lanes_[endpoint]->registerGpuRegion(region, nic_.gpu, deadline);
    registered[endpoint] = registering.ok();
    if (registering.ok()) ++registeredCount;
    else if (endpoint != self_) why = registering.message();
  }
  logInfo(Subsystem::kNet,
          "GPUDirect RDMA: {} bytes of GPU memory, {} of {} owners reached without host memory by {}{}{}", region.bytes,
          registeredCount, sendOrder_.size(), nic_.name, why.empty() ? "" : "; the others: ", why);
  return registered;
}

uint64_t DataPlane::messagesSent() {
  uint64_t messages = 0;
  forEachComm([&](net::Comm& comm) { messages += comm.messagesSent(); });
  return messages;
}

void DataPlane::forEachComm(const std::function<void(net::Comm&)>& use) {
  for (auto& lane : lanes_)
    if (lane != nullptr) lane->forEachComm(use);
  if (service_ != nullptr) service_->forEachComm(use);
  if (ownerless_.exchange != nullptr) ownerless_.exchange->forEachComm(use);
  if (ownerless_.bcube != nullptr) ownerless_.bcube->forEachComm(use);
}

}  // namespace bps
