#include "src/comm/lanes/data_plane.h"

#include <algorithm>
#include <chrono>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/comm/lanes/substitute_lane.h"
#include "src/plan/send_order.h"

namespace bps {
namespace {

// The time that all lanes together may spend on flushes while a call waits. A flush makes received
// data visible in GPU memory and takes microseconds.
constexpr std::chrono::milliseconds kFlushTimeout(500);

}  // namespace

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

void DataPlane::submit(Collective& call, size_t index) {
  const size_t owner = call.chunks[index].owner;
  if (!call.param) return lanes_[owner]->submit(call, index);
  if (isForOwner(static_cast<CallOp>(call.call.op)) && takeover_->lost(owner))
    return spec_.buffers.finished(call, index);
  lanes_[takeover_->actingOwner(owner)]->submit(call, index);
}

void DataPlane::loseOwner(size_t endpoint, const std::function<void(net::Comm&)>& release) {
  takeover_->lose(endpoint);
  if (service_ != nullptr) service_->beginTakeover(endpoint);
  if (service_ != nullptr && endpoint < spec_.control.roster().machines.size()) service_->lose(endpoint);
  std::optional<LaneRemains> remains;
  if (lanes_[endpoint] != nullptr) {
    lanes_[endpoint]->forEachComm(release);
    remains = lanes_[endpoint]->takeRemains();
    lanes_[endpoint].reset();
    std::erase(sendOrder_, endpoint);
  }
  takeover_->restore(endpoint);
  for (const SubmittedChunk& chunk : remains ? remains->chunks : std::deque<SubmittedChunk>()) {
    const auto op = static_cast<CallOp>(chunk.call->call.op);
    if (op == CallOp::kParamRestore) spec_.buffers.finished(*chunk.call, chunk.index);
    else submit(*chunk.call, chunk.index);
  }
  takeover_->settle(endpoint);
}

uint64_t DataPlane::oldestRound() const {
  uint64_t oldest = Lane::kNoRound;
  for (const size_t endpoint : sendOrder_) oldest = std::min(oldest, lanes_[endpoint]->oldestRound());
  return oldest;
}

// A request of the takeover may stay without an answer if its owner has left, and nobody waits for it.
bool DataPlane::drained() const {
  return (service_ == nullptr || service_->drained()) &&
         (ownerless_.exchange == nullptr || ownerless_.exchange->idle()) &&
         (ownerless_.bcube == nullptr || ownerless_.bcube->idle()) &&
         (takeover_ != nullptr ||
          std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane == nullptr || lane->idle(); }));
}

// The summation service and the exchange path make their steps first, because peers wait for them. If
// one lane fails, the other lanes still move. One peer may close its connections while another peer still waits for its
// last answers.
Result<bool> DataPlane::step() {
  bool moved = false;
  if (takeover_ != nullptr) takeover_->step();
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
  if (const std::optional<size_t> lost = service_ != nullptr ? service_->lostElsewhere() : std::nullopt)
    mergeOutcome(failure(Code::kRemote, "another machine has lost it"), lost);
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
