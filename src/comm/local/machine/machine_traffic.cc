#include "src/comm/local/machine/machine_traffic.h"

#include "cpu_reduce/reduce.h"

namespace bps {
namespace {

constexpr size_t kMaxCachedSizes = 256;  // as in StepCache

std::vector<LinkByteCounters::Counter*> rowsOrOwnRow(std::vector<LinkByteCounters::Counter*> rows,
                                                     LinkByteCounters::Counter* own) {
  if (rows.empty()) rows.push_back(own);
  return rows;
}

size_t elementBytesOf(const Collective& call) { return elementBytes(static_cast<DataType>(call.call.type)); }

// Returns how often a machine sends each byte of a chunk, which is also how often it receives each
// byte. If another owner sums the chunk, the machine sends its contribution once and receives the
// sum once. If the machine sums the chunk itself, it exchanges the bytes once with every other
// machine. On the exchange path, every machine sends and receives n - 1 contributions.
uint64_t transfersPerByte(const ChunkRef& chunk, size_t machine, size_t machines) {
  return chunk.usesExchangePath() || chunk.owner == machine ? machines - 1 : 1;
}

}  // namespace

MachineTraffic::MachineTraffic(std::unique_ptr<const MachinePlan> plan, std::vector<LinkByteCounters::Counter*> rows,
                               size_t self)
    : plan_(std::move(plan)),
      self_(self),
      ownRow_(rows.empty() ? LinkByteCounters::size(plan_->topology) : 0),
      meter_(plan_->topology, rowsOrOwnRow(std::move(rows), ownRow_.data()), self) {
  if (plan_->stagedGpu[self] < 0) return;
  const NodeId gpu = plan_->topology.all(NodeKind::kGpu)[static_cast<size_t>(plan_->stagedGpu[self])];
  const NodeId numa = plan_->topology.numaOf(gpu);
  copyOut_ = meter_.incrementsOf({{CopyKind::kStaging, gpu, numa, 1}});
  copyBack_ = meter_.incrementsOf({{CopyKind::kStaging, numa, gpu, 1}});
  const NicAssignment* assignment = plan_->assignmentOf(self_);
  if (assignment == nullptr || assignment->nic == kNoNode) return;
  gpuAndNic_ =
      meter_.incrementsOf({{CopyKind::kNic, gpu, assignment->nic, 1}, {CopyKind::kNic, assignment->nic, gpu, 1}});
}

void MachineTraffic::count(const Collective& call) {
  const uint64_t bytes = call.call.count * elementBytesOf(call);
  calls_.fetch_add(call.call.calls(), std::memory_order_relaxed);
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
  uint64_t staged = bytes;
  for (const ChunkRef& chunk : call.chunks) staged -= chunk.onGpu ? chunk.bytes : 0;
  if (call.stageSend) meter_.increment(copyOut_, staged);
  if (call.stageRecv) meter_.increment(copyBack_, staged);
}

void MachineTraffic::countNetwork(const Collective& call, const Rails& rails, size_t machine, size_t machines) {
  if (!rails.carries(self_, call.onAllRails)) return;
  uint64_t bytes = 0, onGpu = 0;
  for (const ChunkRef& chunk : call.chunks)
    (chunk.onGpu ? onGpu : bytes) += rails.rangeOf(self_, chunk.bytes, elementBytesOf(call), call.onAllRails).size() *
                                     transfersPerByte(chunk, machine, machines);
  meter_.increment(gpuAndNic_, onGpu);
  const std::pair<uint64_t, uint64_t> key(bytes, elementBytesOf(call));
  auto known = network_.find(key);
  if (known == network_.end()) {
    if (network_.size() == kMaxCachedSizes) network_.clear();
    const LocalPlan& plan = plan_->program.plan();
    const NicAssignment* assignment = rails.hasSeveral() ? assignmentOf(plan, self_) : nullptr;
    const auto increments = meter_.incrementsOf(assignment != nullptr ? networkCopies(plan, *assignment, bytes)
                                                                      : networkCopies(plan, bytes, key.second, 1));
    known = network_.emplace(key, increments).first;
  }
  meter_.increment(known->second);
}

void MachineTraffic::clear() {
  meter_.clear();
  calls_.store(0, std::memory_order_relaxed);
  bytes_.store(0, std::memory_order_relaxed);
}

}  // namespace bps
