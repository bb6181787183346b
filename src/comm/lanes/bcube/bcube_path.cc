#include "src/comm/lanes/bcube/bcube_path.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cpu_reduce/reduce.h"
#include "src/base/format.h"
#include "src/base/io/interfaces.h"

namespace bps {
namespace {

constexpr size_t kMaxElementBytes = 16, kAlignment = 64;
constexpr std::chrono::milliseconds kNicCheckInterval(500);  // while no block is completed

}  // namespace

BcubePath::BcubePath(ChunkBuffers& buffers, BcubeSpec spec)
    : buffers_(buffers),
      spec_(std::move(spec)),
      neighbours_(spec_.shape.k() * spec_.shape.n()),
      blocks_(spec_.window),
      sums_{std::vector<Contribution>(spec_.shape.n()),
            RoundSum(spec_.ranks, RoundSum::Coverage::kSomeRanks, spec_.reduceThreads),
            RoundSum(spec_.ranks, RoundSum::Coverage::kAllRanks, spec_.reduceThreads)} {}

Result<std::unique_ptr<BcubePath>> BcubePath::create(ChunkBuffers& buffers, BcubeSpec spec,
                                                     std::vector<std::vector<BcubeNeighbour>> neighbours) {
  std::unique_ptr<BcubePath> path(new BcubePath(buffers, std::move(spec)));
  const BcubeSpec& s = path->spec_;
  const size_t n = s.shape.n(), k = s.shape.k();
  const BcubeConnectionShape shape{2 * s.window, s.maxBlockBytes / n + kMaxElementBytes, k, s.checksum};
  const size_t partialBytes = roundUp(path->partialOffset(k - 1), kAlignment);
  path->partials_ = BPS_TRY(PageBuffer::create(s.window * partialBytes));
  for (size_t i = 0; i < s.window; ++i) path->blocks_[i].partial = path->partials_.data() + i * partialBytes;
  for (size_t level = 0; level < k; ++level)
    for (size_t digit = 0; digit < n; ++digit) {
      Neighbour& to = path->neighbour(level, digit);
      to.level = level;
      to.digit = digit;
      to.machine = s.machineAt[s.shape.neighbour(s.address, level, digit)];
      if (digit == path->ownDigit(level)) continue;
      BcubeNeighbour& comms = neighbours[level][digit];
      to.out[0] = BPS_TRY(BcubeSender::create(std::move(comms.aggregateOut), shape));
      to.out[1] = BPS_TRY(BcubeSender::create(std::move(comms.distributeOut), shape));
      to.in[0] = BPS_TRY(BcubeReceiver::create(std::move(comms.aggregateIn), shape));
      to.in[1] = BPS_TRY(BcubeReceiver::create(std::move(comms.distributeIn), shape));
      for (const auto& in : to.in) in->setNeeded(false);
    }
  return path;
}

// The sums of aggregation step s are behind those of the steps before it.
size_t BcubePath::partialOffset(size_t step) const {
  size_t offset = 0, bytes = spec_.maxBlockBytes;
  for (; step > 0; --step) {
    bytes /= spec_.shape.n();
    offset += roundUp(bytes + kMaxElementBytes, kAlignment);
  }
  return offset;
}

void BcubePath::submit(Collective& call) {
  for (size_t i = 0; i < call.chunks.size(); ++i) waiting_.push_back({&call, i});
}

Result<bool> BcubePath::step() {
  failedMachine_.reset();
  BPS_TRY(failure_.clone());
  Result<bool> moved = move();
  if (!moved.ok()) failure_ = moved.error().clone();
  else BPS_TRY(takeFailure());
  return moved;
}

Result<bool> BcubePath::move() {
  bool moved = false;
  for (; mayAdmit(); moved = true) admit();
  const bool needed = count_.retired < count_.admitted || !waiting_.empty();
  for (Neighbour& from : neighbours_)
    for (const Phase phase : {Phase::kAggregate, Phase::kDistribute}) {
      const auto p = static_cast<size_t>(phase);
      if (from.in[p] == nullptr) continue;
      from.in[p]->setNeeded(needed);
      moved = from.in[p]->step() || moved;
      moved = BPS_TRY(take(from, phase)) || moved;
    }
  for (uint64_t number = count_.retired; number < count_.admitted; ++number) moved = BPS_TRY(advance(number)) || moved;
  for (Neighbour& to : neighbours_)
    for (const auto& out : to.out)
      if (out != nullptr) moved = out->step() || moved;
  while (retireNext()) moved = true;
  return moved;
}

bool BcubePath::mayAdmit() const {
  if (waiting_.empty() || count_.admitted == count_.retired + spec_.window) return false;
  if (!fitsBcubeWindow(spec_.shape.k(), count_.admitted - count_.retired, count_.bytesInFlight)) return false;
  const auto& [call, index] = waiting_.front();
  return buffers_.ready(*call, index);
}

void BcubePath::admit() {
  Block& block = this->block(count_.admitted);
  const auto& [call, index] = block.chunk = waiting_.front();
  block.view = buffers_.view(*call, index);
  block.thread = call->chunks[index].thread;
  block.elementBytes = elementBytes(static_cast<DataType>(block.view.call.type));
  block.count = block.view.bytes / block.elementBytes;
  block.stage = 0;
  block.begun = false;
  block.inputs.assign(stages() * spec_.shape.n(), {});
  block.lastSent.assign(2 * neighbours_.size(), 0);
  if (spec_.recorder)
    spec_.recorder.add(trace::Stage::kChunkAdmitted, block.view.call.number, count_.admitted, block.view.bytes);
  count_.bytesInFlight += block.view.bytes;
  waiting_.pop_front();
  ++count_.admitted;
}

BcubePath::Stage BcubePath::stageOf(const Block& block, size_t stage) const {
  const size_t k = spec_.shape.k();
  const bool aggregates = stage < k;
  const size_t step = aggregates ? stage : 2 * k - 1 - stage;
  return {aggregates ? Phase::kAggregate : Phase::kDistribute, step, spec_.shape.levelOf(block.thread, step)};
}

BcubePath::Range BcubePath::range(const Block& block, size_t address, size_t steps) const {
  const ChunkRange range = spec_.shape.elements(spec_.shape.cells(block.thread, address, steps), block.count);
  return {range.offset * block.elementBytes, range.count * block.elementBytes};
}

const uint8_t* BcubePath::partialSum(const Block& block, size_t step, const Range& part) const {
  if (step == 0) return block.view.source + part.offset;
  return block.partial + partialOffset(step - 1) + (part.offset - range(block, spec_.address, step).offset);
}

// Gives the slices of one connection to their blocks. Slices of blocks that are not in the window yet stay pending.
Result<bool> BcubePath::take(Neighbour& from, Phase phase) {
  const auto p = static_cast<size_t>(phase);
  std::deque<uint64_t>& pending = from.pending[p];
  for (; from.seen[p] < from.in[p]->arrived(); ++from.seen[p]) pending.push_back(from.seen[p]);
  bool moved = false;
  for (auto number = pending.begin(); number != pending.end();) {
    const bool given = BPS_TRY(give(from, phase, *number, from.in[p]->slice(*number)));
    moved = moved || given;
    number = given ? pending.erase(number) : number + 1;
  }
  return moved;
}

Result<bool> BcubePath::give(Neighbour& from, Phase phase, uint64_t number, const BcubeSlice& slice) {
  if (slice.block < count_.retired || slice.block >= count_.retired + 2 * spec_.window)
    return failure(Code::kRemote, "{} sent a slice of block {}, expected {} to {}", spec_.nameOf(from.machine),
                   slice.block, count_.retired, count_.retired + 2 * spec_.window - 1);
  if (slice.block >= count_.admitted) return false;
  Block& block = this->block(slice.block);
  if (!slice.call.samePosition(block.view.call)) return false;
  const bool aggregates = phase == Phase::kAggregate;
  const size_t sender = spec_.shape.neighbour(spec_.address, from.level, from.digit);
  const Range part = range(block, aggregates ? spec_.address : sender, slice.step + 1);
  BPS_TRY(check(block, from, slice, part));
  Input& input = block.inputs[inputIndex(phase, slice.step, from.digit)];
  if (input.here) return failure(Code::kRemote, "{} sent a slice twice", spec_.nameOf(from.machine));
  input = {true, number};
  if (aggregates) return true;
  if (part.bytes > 0) std::memcpy(block.view.target + part.offset, slice.data, part.bytes);
  from.in[1]->release(number);
  return true;
}

Status BcubePath::check(const Block& block, const Neighbour& from, const BcubeSlice& slice,
                        const Range& expected) const {
  const CallInfo& own = block.view.call;
  if (!slice.call.sameCall(own) || slice.bytes != expected.bytes)
    return checkRound({{own, nullptr, expected.bytes}, {slice.call, nullptr, slice.bytes}}, [&](size_t side) {
      return spec_.nameOf(side == 0 ? spec_.machineAt[spec_.address] : from.machine);
    });
  if (spec_.shape.levelOf(block.thread, slice.step) != from.level)
    return failure(Code::kRemote, "{} sent a slice of step {} over level {}, expected level {}",
                   spec_.nameOf(from.machine), slice.step, from.level, spec_.shape.levelOf(block.thread, slice.step));
  return {};
}

// Brings a block to its next stage if it can. Each step() sums at most one slice of a block, so that the connections
// move between the sums.
Result<bool> BcubePath::advance(uint64_t number) {
  Block& block = this->block(number);
  if (block.stage == stages()) return false;
  const Stage stage = stageOf(block, block.stage);
  bool moved = false;
  if (!block.begun) {
    BPS_TRY(sendSlices(number, stage));
    block.begun = moved = true;
  }
  if (!complete(block, stage)) return moved;
  if (stage.phase == Phase::kAggregate) sum(block, stage);
  ++block.stage;
  block.begun = false;
  return true;
}

Status BcubePath::sendSlices(uint64_t number, const Stage& stage) {
  Block& block = this->block(number);
  const bool aggregates = stage.phase == Phase::kAggregate;
  for (size_t digit = 0; digit < spec_.shape.n(); ++digit) {
    if (digit == ownDigit(stage.level)) continue;
    Neighbour& to = neighbour(stage.level, digit);
    const size_t receiver = spec_.shape.neighbour(spec_.address, stage.level, digit);
    const Range part = range(block, aggregates ? receiver : spec_.address, stage.step + 1);
    const uint8_t* data = aggregates ? partialSum(block, stage.step, part) : block.view.target + part.offset;
    const auto p = static_cast<size_t>(stage.phase);
    BPS_TRY(to.out[p]->send({number, static_cast<uint8_t>(stage.step), block.view.call, data, part.bytes}));
    block.lastSent[2 * (stage.level * spec_.shape.n() + digit) + p] = to.out[p]->sent();
  }
  return {};
}

bool BcubePath::complete(const Block& block, const Stage& stage) const {
  size_t here = 0;
  for (size_t digit = 0; digit < spec_.shape.n(); ++digit)
    if (block.inputs[inputIndex(stage.phase, stage.step, digit)].here) ++here;
  return here == spec_.shape.n() - 1;
}

void BcubePath::sum(Block& block, const Stage& stage) {
  const size_t n = spec_.shape.n(), k = spec_.shape.k(), own = ownDigit(stage.level);
  const Range part = range(block, spec_.address, stage.step + 1);
  for (size_t digit = 0; digit < n; ++digit) {
    const Neighbour& from = neighbour(stage.level, digit);
    const bool summed = stage.step > 0 || spec_.summed[from.machine];
    if (digit == own) {
      sums_.round[digit] = {block.view.call, partialSum(block, stage.step, part), part.bytes, summed};
      continue;
    }
    const BcubeSlice& slice = from.in[0]->slice(block.inputs[inputIndex(stage.phase, stage.step, digit)].number);
    sums_.round[digit] = {slice.call, slice.data, slice.bytes, summed};
  }
  if (stage.step > 0)  // the scalars are already applied
    for (Contribution& contribution : sums_.round) contribution.call.hasScalar = false;
  const bool last = stage.step + 1 == k;
  uint8_t* target = last ? block.view.target + part.offset : block.partial + partialOffset(stage.step);
  if (part.bytes > 0) (last ? sums_.allRanks : sums_.someRanks).run(sums_.round, target);
  for (size_t digit = 0; digit < n; ++digit)
    if (digit != own)
      neighbour(stage.level, digit).in[0]->release(block.inputs[inputIndex(stage.phase, stage.step, digit)].number);
}

// Retires the oldest block if it is complete and the neighbours' connections do not read its memory any more.
bool BcubePath::retireNext() {
  if (count_.retired == count_.admitted) return false;
  Block& block = this->block(count_.retired);
  if (block.stage != stages()) return false;
  for (size_t i = 0; i < neighbours_.size(); ++i)
    for (size_t p = 0; p < 2; ++p)
      if (neighbours_[i].out[p] != nullptr && neighbours_[i].out[p]->done() < block.lastSent[2 * i + p]) return false;
  if (spec_.recorder)
    spec_.recorder.add(trace::Stage::kRetired, block.view.call.number, count_.retired, block.view.bytes);
  ++count_.retired;
  count_.bytesInFlight -= block.view.bytes;
  buffers_.finished(*block.chunk.call, block.chunk.index);
  return true;
}

// Returns the failure of a connection that step() has not returned yet.
Status BcubePath::takeFailure() {
  for (Neighbour& peer : neighbours_)
    for (size_t p = 0; p < 2; ++p) {
      if (peer.in[p] == nullptr) continue;
      const bool in = !peer.in[p]->status().ok() && !std::exchange(peer.inReported[p], true);
      const bool out = !peer.out[p]->status().ok() && !std::exchange(peer.outReported[p], true);
      if (!in && !out) continue;
      failedMachine_ = peer.machine;
      return (in ? peer.in[p]->status() : peer.out[p]->status()).clone().within(fmt::format("level {}", peer.level));
    }
  return {};
}

bool BcubePath::idle() const {
  return waiting_.empty() && count_.retired == count_.admitted &&
         std::all_of(neighbours_.begin(), neighbours_.end(), [](const Neighbour& peer) {
           return peer.out[0] == nullptr || (peer.out[0]->idle() && peer.out[1]->idle());
         });
}

std::optional<EndpointWait> BcubePath::checkWait() {
  const bool waiting = count_.retired < count_.admitted;
  if (!waiting || waitCheck_.retired != count_.retired) {
    waitCheck_.retired = count_.retired;
    waitCheck_.since.reset();
  }
  if (!waiting) return {};
  const auto now = Deadline::Clock::now();
  if (!waitCheck_.since) waitCheck_.since = waitCheck_.nicsChecked = now;
  if (failure_.ok() && now - waitCheck_.nicsChecked >= kNicCheckInterval) {
    waitCheck_.nicsChecked = now;
    failure_ = checkNics();
  }
  if (now - *waitCheck_.since < spec_.waitReportTime) return {};
  const Block& oldest = block(count_.retired);
  return EndpointWait{oldest.view.call.number, awaitedMachines(oldest).front()};
}

// The connections themselves do not tell: TCP sends again for many minutes.
Status BcubePath::checkNics() const {
  for (size_t level = 0; level < spec_.nics.size(); ++level)
    if (!interfaceRuns(spec_.nics[level]))
      return failure(Code::kSystem, "interface {} of level {} of machine {} is down or has no carrier",
                     spec_.nics[level], level, spec_.shape.addressText(spec_.address));
  return {};
}

// The neighbours whose slices of the block's stage are missing. If all are here, those that have not taken a slice.
std::vector<size_t> BcubePath::awaitedMachines(const Block& block) const {
  std::vector<size_t> machines;
  const size_t n = spec_.shape.n();
  if (block.stage < stages()) {
    const Stage stage = stageOf(block, block.stage);
    for (size_t digit = 0; digit < n; ++digit)
      if (digit != ownDigit(stage.level) && !block.inputs[inputIndex(stage.phase, stage.step, digit)].here)
        machines.push_back(neighbours_[stage.level * n + digit].machine);
  }
  for (const Neighbour& to : neighbours_)
    if (machines.empty() && to.out[0] != nullptr && !(to.out[0]->idle() && to.out[1]->idle()))
      machines.push_back(to.machine);
  if (machines.empty()) machines.push_back(neighbours_[ownDigit(0) == 0 ? 1 : 0].machine);
  return machines;
}

void BcubePath::addPeerWaits(std::vector<PeerWait>& waits) const {
  if (count_.retired == count_.admitted) return;
  const Block& oldest = block(count_.retired);
  const bool sums = oldest.stage >= spec_.shape.k();
  for (const size_t machine : awaitedMachines(oldest))
    waits.push_back({spec_.nameOf(machine), sums ? PeerWait::Data::kSum : PeerWait::Data::kContribution,
                     count_.admitted - count_.retired, 0});
}

void BcubePath::forEachComm(const std::function<void(net::Comm&)>& use) {
  for (Neighbour& peer : neighbours_)
    for (size_t p = 0; p < 2; ++p) {
      if (peer.in[p] == nullptr) continue;
      use(peer.out[p]->comm());
      use(peer.in[p]->comm());
    }
}

}  // namespace bps
