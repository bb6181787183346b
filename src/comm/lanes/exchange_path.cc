#include "src/comm/lanes/exchange_path.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "src/base/checksum/crc32c.h"
#include "src/base/format.h"
#include "src/plan/constants.h"

namespace bps {

ExchangePath::ExchangePath(ChunkBuffers& buffers, ExchangeSpec spec)
    : buffers_(buffers),
      spec_(std::move(spec)),
      inFlight_(constants::kExchangeSlots),
      round_(spec_.machines),
      sum_(spec_.ranks, RoundSum::Coverage::kAllRanks, spec_.reduceThreads) {}

Result<std::unique_ptr<ExchangePath>> ExchangePath::create(ChunkBuffers& buffers, ExchangeSpec spec,
                                                           std::vector<net::PeerConnections>& connections) {
  std::unique_ptr<ExchangePath> path(new ExchangePath(buffers, std::move(spec)));
  const ExchangeSpec& s = path->spec_;
  for (size_t distance = 1; distance < s.machines; distance *= 2) {
    const ExchangeShape shape{std::min(distance, s.machines - distance), constants::kExchangeSlots, s.maxChunkBytes,
                              s.checksum};
    Step step;
    step.distance = distance;
    step.out =
        BPS_TRY(ExchangeSender::create(std::move(connections[path->machineBehind(distance)].exchangeOut), shape));
    step.in = BPS_TRY(ExchangeReceiver::create(std::move(connections[path->machineAt(distance)].exchangeIn), shape));
    step.in->setNeeded(false);
    path->steps_.push_back(std::move(step));
  }
  return path;
}

void ExchangePath::submit(Collective& call) {
  for (size_t i = 0; i < call.chunks.size(); ++i) submit({&call, i});
  if (!failure_.ok() || !mayAdmit()) return;
  admit();
  failure_ = send(steps_[0]);
  steps_[0].out->step();
}

Result<bool> ExchangePath::step(uint64_t oldestRound) {
  while (!onLanes_.empty() && onLanes_.front().endRound <= oldestRound) onLanes_.pop_front();
  failedMachine_.reset();
  BPS_TRY(failure_.clone());
  Result<bool> moved = move();
  if (!moved.ok()) failure_ = moved.error().clone();
  else BPS_TRY(takeFailure());
  return moved;
}

// The steps are made in their order, because a step sends what the steps before it have received.
// Each move() sums only one chunk, so that the connections move between the sums of large chunks.
Result<bool> ExchangePath::move() {
  bool moved = mayAdmit();
  if (moved) admit();
  for (Step& step : steps_) {
    BPS_TRY(send(step));
    moved = step.out->step() || moved;
    moved = step.in->step(count_.summed) || moved;
    moved = BPS_TRY(accept(step)) || moved;
  }
  moved = sumNext() || moved;
  while (retireNext()) moved = true;
  const uint64_t submitted = count_.admitted + waiting_.size();
  for (Step& step : steps_) step.in->setNeeded(step.in->arrived() < submitted);
  return moved;
}

// A large call sends only a few chunks ahead of the sums. This limit keeps the data in flight in the
// CPU's caches.
bool ExchangePath::mayAdmit() const {
  if (waiting_.empty()) return false;
  const auto& [call, index] = waiting_.front().chunk;
  if (call != nullptr && !buffers_.ready(*call, index)) return false;
  size_t ahead = 0;
  for (uint64_t chunk = count_.retired; chunk < count_.admitted; ++chunk)
    if (flight(chunk).chunk.chunk.call == call) ++ahead;
  if (ahead >= constants::kExchangeAhead) return false;
  uint64_t released = count_.retired;
  for (const Step& step : steps_) released = std::min(released, step.out->done());
  return count_.admitted < released + constants::kExchangeSlots;
}

void ExchangePath::admit() {
  InFlight& flight = this->flight(count_.admitted);
  flight.chunk = std::move(waiting_.front());
  flight.view = viewOf(flight.chunk);
  const ChunkView& view = flight.view;
  const auto& [call, index] = flight.chunk.chunk;
  DataHeader header;
  header.sequence = DataHeader::sequenceForChunk(count_.admitted);
  header.first = spec_.replacesLane || call->chunks[index].round == 0;
  header.call = view.call;
  if (spec_.checksum) header.payload = crc32c(view.source, view.bytes);
  flight.own.headerBytes = static_cast<uint8_t>(encode(header, flight.own.header));
  flight.own.first = header.first;
  flight.own.call = view.call;
  flight.own.data = view.source;
  flight.own.bytes = view.bytes;
  flight.copied = view.bytes <= constants::kMaxCopiedBytes || (view.inPlace && call->chunks.size() == 1);
  record(trace::Stage::kChunkAdmitted, count_.admitted);
  waiting_.pop_front();
  ++count_.admitted;
}

ChunkView ExchangePath::viewOf(const Submitted& chunk) const {
  if (chunk.sum == nullptr) return buffers_.view(*chunk.chunk.call, chunk.chunk.index);
  ChunkView view;
  view.source = chunk.sum->bytes.data();
  view.bytes = chunk.sum->bytes.size();
  view.call = chunk.sum->call;
  view.inPlace = false;
  return view;
}

std::optional<SubmittedChunk> ExchangePath::oldest() const {
  for (uint64_t chunk = count_.retired; chunk < count_.admitted; ++chunk)
    if (flight(chunk).chunk.sum == nullptr) return flight(chunk).chunk.chunk;
  for (const Submitted& chunk : waiting_)
    if (chunk.sum == nullptr) return chunk.chunk;
  return {};
}

// Sends every chunk whose contributions the earlier steps have received.
Status ExchangePath::send(Step& step) {
  uint64_t end = count_.admitted;
  for (const Step& earlier : steps_) {
    if (earlier.distance == step.distance) break;
    end = std::min(end, earlier.accepted);
  }
  while (step.out->sent() < end) {
    const uint64_t chunk = step.out->sent();
    const InFlight& own = flight(chunk);
    if (step.distance == 1 && !own.copied) {
      BPS_TRY(step.out->sendDirectly(own.own));
      continue;
    }
    step.out->add(own.own);
    size_t left = std::min(step.distance, spec_.machines - step.distance) - 1;
    for (const Step& earlier : steps_)
      for (const ExchangeBlock& block : earlier.in->message(chunk)) {
        if (left == 0) break;
        step.out->add(block);
        --left;
      }
    step.out->send();
  }
  return {};
}

Result<bool> ExchangePath::accept(Step& step) {
  const uint64_t before = step.accepted;
  for (; step.accepted < step.in->arrived(); ++step.accepted) {
    const std::vector<ExchangeBlock>& blocks = step.in->message(step.accepted);
    for (size_t i = 0; i < blocks.size(); ++i)
      if (!BPS_TRY(mayAccept(blocks[i], machineAt(step.distance + i), step.accepted))) return step.accepted > before;
  }
  return step.accepted > before;
}

Result<bool> ExchangePath::mayAccept(const ExchangeBlock& block, size_t machine, uint64_t chunk) {
  BPS_TRY(checkNotOnLanes(block, machine));
  if (chunk >= count_.admitted) return false;
  const InFlight& own = flight(chunk);
  if (!block.call.samePosition(own.view.call)) return false;
  BPS_TRY(compare({own.view.call, own.view.source, own.view.bytes}, block, machine));
  if (block.first != own.own.first)
    return failure(Code::kInternal, "{} cut {} differently", spec_.nameOf(machine), describe(block.call));
  return true;
}

Status ExchangePath::checkNotOnLanes(const ExchangeBlock& block, size_t machine) const {
  for (const CallOnLanes& own : onLanes_) {
    if (!block.call.samePosition(own.call)) continue;
    BPS_TRY(compare({own.call, nullptr, block.bytes}, block, machine));
    return failure(Code::kInternal, "{} sent {} on the exchange path, but {} did not", spec_.nameOf(machine),
                   describe(block.call), spec_.nameOf(spec_.self));
  }
  return {};
}

// Fails if the call of a contribution is not the call that this machine has made.
Status ExchangePath::compare(const Contribution& own, const ExchangeBlock& block, size_t machine) const {
  if (block.call.sameCall(own.call) && block.bytes == own.bytes) return {};
  return checkRound({own, {block.call, block.data, block.bytes}},
                    [&](size_t side) { return spec_.nameOf(side == 0 ? spec_.self : machine); });
}

// Sums the next chunk if all contributions are here and all messages with them are queued.
bool ExchangePath::sumNext() {
  const uint64_t chunk = count_.summed;
  if (chunk == count_.admitted) return false;
  for (const Step& step : steps_)
    if (step.accepted <= chunk || step.out->sent() <= chunk) return false;
  const ChunkView& view = flight(chunk).view;
  if (view.inPlace && !contributionSent(chunk)) return false;
  if (chunk < spec_.sumHolders.size()) {
    if (view.target != nullptr && view.bytes > 0)
      std::memcpy(view.target, blockOf(spec_.sumHolders[chunk], chunk).data, view.bytes);
    ++count_.summed;
    return true;
  }
  round_[spec_.self] = {view.call, view.source, view.bytes, spec_.summed[spec_.self]};
  for (const Step& step : steps_) {
    size_t machine = machineAt(step.distance);
    for (const ExchangeBlock& block : step.in->message(chunk)) {
      round_[machine] = {block.call, block.data, block.bytes, spec_.summed[machine]};
      machine = (machine + 1) % spec_.machines;
    }
  }
  record(trace::Stage::kSumBegun, chunk);
  sum_.run(round_, view.target);
  record(trace::Stage::kSummed, chunk);
  ++count_.summed;
  return true;
}

// The contribution of another machine to a chunk whose contributions are all here.
const ExchangeBlock& ExchangePath::blockOf(size_t machine, uint64_t chunk) const {
  const size_t distance = (machine + spec_.machines - spec_.self) % spec_.machines;
  const auto step = std::find_if(steps_.rbegin(), steps_.rend(), [&](const Step& s) { return s.distance <= distance; });
  return step->in->message(chunk)[distance - step->distance];
}

bool ExchangePath::retireNext() {
  if (count_.retired == count_.summed || !contributionSent(count_.retired)) return false;
  Submitted& retired = flight(count_.retired++).chunk;
  record(trace::Stage::kRetired, count_.retired - 1);
  if (retired.sum == nullptr) buffers_.finished(*retired.chunk.call, retired.chunk.index);
  retired.sum.reset();
  return true;
}

void ExchangePath::record(trace::Stage stage, uint64_t chunk) const {
  if (!spec_.recorder) return;
  const ChunkView& view = flight(chunk).view;
  spec_.recorder.add(stage, view.call.number, chunk, view.bytes);
}

// Returns the failure of a connection that step() has not returned yet.
Status ExchangePath::takeFailure() {
  for (Step& step : steps_) {
    if (!step.in->status().ok() && !std::exchange(step.inReported, true)) {
      failedMachine_ = machineAt(step.distance);
      return step.in->status().clone();
    }
    if (!step.out->status().ok() && !std::exchange(step.outReported, true)) {
      failedMachine_ = machineBehind(step.distance);
      return step.out->status().clone();
    }
  }
  return {};
}

bool ExchangePath::idle() const {
  return waiting_.empty() && count_.retired == count_.admitted &&
         std::all_of(steps_.begin(), steps_.end(), [](const Step& step) { return step.out->idle(); });
}

std::optional<EndpointWait> ExchangePath::checkWait() {
  const bool waiting = count_.summed < count_.admitted;
  if (!waiting || waitCheck_.summed != count_.summed) {
    waitCheck_.summed = count_.summed;
    waitCheck_.since.reset();
  }
  if (!waiting) return {};
  const auto now = Deadline::Clock::now();
  if (!waitCheck_.since) waitCheck_.since = now;
  if (now - *waitCheck_.since < spec_.waitReportTime) return {};
  return EndpointWait{flight(count_.summed).view.call.number, awaitedMachine()};
}

void ExchangePath::addPeerWaits(std::vector<PeerWait>& waits) const {
  if (count_.summed == count_.admitted) return;
  for (const Step& step : steps_)
    waits.push_back({spec_.nameOf(machineAt(step.distance)), PeerWait::Data::kContribution,
                     count_.admitted - std::max(step.accepted, count_.summed), 0});
}

// If all contributions are here, the next sum waits until the neighbour has taken this machine's
// contribution.
size_t ExchangePath::awaitedMachine() const {
  for (const Step& step : steps_)
    if (step.accepted <= count_.summed) return machineAt(step.distance);
  return machineBehind(1);
}

void ExchangePath::forEachComm(const std::function<void(net::Comm&)>& use) {
  for (const Step& step : steps_) {
    use(step.out->comm());
    use(step.in->comm());
  }
}

}  // namespace bps
