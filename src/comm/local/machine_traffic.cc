#include "src/comm/local/machine_traffic.h"

#include "cpu_reduce/reduce.h"

namespace bps {
namespace {

constexpr size_t kMostKnown = 256;  // sizes; as in StepBook

std::vector<LinkMeter::Number*> orOwn(std::vector<LinkMeter::Number*> rows, LinkMeter::Number* own) {
  if (rows.empty()) rows.push_back(own);
  return rows;
}

size_t unitOf(const Collective& call) { return elementBytes(static_cast<DataType>(call.call.type)); }

// Bytes that a machine sends for a chunk, and receives: its contribution and the sum; of a chunk that it sums itself,
// or that all exchange, what all others do with it.
uint64_t timesMoved(const ChunkRef& chunk, size_t machine, size_t machines) {
  return chunk.direct() || chunk.owner == machine ? machines - 1 : 1;
}

}  // namespace

MachineTraffic::MachineTraffic(std::unique_ptr<const MachinePlan> plan, std::vector<LinkMeter::Number*> rows,
                               size_t self)
    : plan_(std::move(plan)),
      self_(self),
      ownRow_(rows.empty() ? LinkMeter::size(plan_->topology) : 0),
      meter_(plan_->topology, orOwn(std::move(rows), ownRow_.data()), self) {
  if (plan_->copiedFrom[self] < 0) return;
  const NodeId gpu = plan_->topology.all(NodeKind::kGpu)[static_cast<size_t>(plan_->copiedFrom[self])];
  const NodeId numa = plan_->topology.numaOf(gpu);
  copyOut_ = meter_.chargesOf({{CopyKind::kStaging, gpu, numa, 1}});
  copyBack_ = meter_.chargesOf({{CopyKind::kStaging, numa, gpu, 1}});
  const NicDuty* duty = plan_->dutyOf(self_);
  if (duty == nullptr || duty->nic == kNoNode) return;
  gpuAndNic_ = meter_.chargesOf({{CopyKind::kNic, gpu, duty->nic, 1}, {CopyKind::kNic, duty->nic, gpu, 1}});
}

void MachineTraffic::count(const Collective& call) {
  const uint64_t bytes = call.call.count * unitOf(call);
  calls_.fetch_add(1, std::memory_order_relaxed);
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  uint64_t staged = bytes;
  for (const ChunkRef& chunk : call.chunks) staged -= chunk.onGpu ? chunk.bytes : 0;
  if (call.stageSend) meter_.charge(copyOut_, staged);
  if (call.stageRecv) meter_.charge(copyBack_, staged);
}

void MachineTraffic::countNetwork(const Collective& call, const Rails& rails, size_t machine, size_t machines) {
  if (!rails.carries(self_, call.spread)) return;
  uint64_t bytes = 0, onGpu = 0;
  for (const ChunkRef& chunk : call.chunks)
    (chunk.onGpu ? onGpu : bytes) +=
        rails.partOf(self_, chunk.bytes, unitOf(call), call.spread).size() * timesMoved(chunk, machine, machines);
  meter_.charge(gpuAndNic_, onGpu);
  const std::pair<uint64_t, uint64_t> key(bytes, unitOf(call));
  auto known = network_.find(key);
  if (known == network_.end()) {
    if (network_.size() == kMostKnown) network_.clear();
    const LocalPlan& plan = plan_->program.plan();
    const NicDuty* duty = rails.several() ? dutyOf(plan, self_) : nullptr;
    const auto charges = meter_.chargesOf(duty != nullptr ? networkCopies(plan, *duty, bytes)
                                                          : networkCopies(plan, bytes, key.second, 1));
    known = network_.emplace(key, charges).first;
  }
  meter_.charge(known->second);
}

void MachineTraffic::clear() {
  meter_.clear();
  calls_.store(0, std::memory_order_relaxed);
  bytes_.store(0, std::memory_order_relaxed);
}

}  // namespace bps
