#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "src/base/checksum/crc32c.h"
#include "src/base/format.h"
#include "src/comm/call/param_copies.h"
#include "src/comm/lanes/lane.h"

namespace bps {
namespace {

// A rank may have no value of a part that is restored.
size_t sentBytes(const ChunkView& view) {
  return carriesContribution(static_cast<CallOp>(view.call.op)) && view.source != nullptr ? view.bytes : 0;
}
size_t answerBytes(const ChunkView& view) { return carriesAnswer(static_cast<CallOp>(view.call.op)) ? view.bytes : 0; }

}  // namespace

Status Lane::registerGpuRegion(const net::GpuRegion&, const net::GpuRegistrationModes&, Deadline) {
  return {Code::kInvalidUsage, "the CPU of this machine sums the chunk"};
}

RemoteLane::RemoteLane(ChunkBuffers& buffers, const Shape& shape, net::PeerConnections connections)
    : Lane(buffers),
      shape_(shape),
      pushQueue_(std::move(connections.pushOut), net::MessageQueue::Direction::kSend),
      answerQueue_(std::move(connections.answerIn), net::MessageQueue::Direction::kReceive) {}

Result<std::unique_ptr<Lane>> RemoteLane::create(ChunkBuffers& buffers, const Shape& shape,
                                                 net::PeerConnections connections) {
  std::unique_ptr<RemoteLane> lane(new RemoteLane(buffers, shape, std::move(connections)));
  BPS_TRY(lane->prepare());
  return std::unique_ptr<Lane>(std::move(lane));
}

Status RemoteLane::prepare() {
  BPS_TRY(pushHeaders_.prepare(pushQueue_.comm(), shape_.depth, shape_.headerBytes));
  BPS_TRY(answerHeaders_.prepare(answerQueue_.comm(), shape_.depth, shape_.headerBytes));
  return answers_.prepare(answerQueue_.comm(), (shape_.keepsSums ? 2 : 1) * shape_.depth, shape_.maxChunkBytes);
}

// Starts the next chunk. Posts the receives for its answer before it sends the chunk.
Status RemoteLane::admit() {
  InFlight flight;
  flight.chunk = waiting_.front();
  flight.view = buffers_.view(*flight.chunk.call, flight.chunk.index);
  flight.round = roundOf(flight.chunk);
  BPS_TRY(postAnswerReceives(flight));
  pushHeader(flight);
  BPS_TRY(pushPayload(flight));
  if (!times_.busy.since && flight.chunk.call->hasManyRounds()) times_.busy.since = std::chrono::steady_clock::now();
  if (shape_.recorder) record(trace::Stage::kChunkAdmitted, flight, count_.admitted);
  inFlight_.push_back(flight);
  waiting_.pop_front();
  ++count_.admitted;
  return {};
}

void RemoteLane::pushHeader(const InFlight& flight) {
  const ChunkView& view = flight.view;
  DataHeader header;
  header.sequence = DataHeader::sequenceForChunk(count_.admitted);
  header.part = flight.chunk.call->partOf(chunkRefOf(flight.chunk));
  header.first = header.part || chunkRefOf(flight.chunk).round == 0;
  if (view.call.op == static_cast<uint8_t>(CallOp::kParamRestore)) header.clock = flight.chunk.call->param->restored;
  header.call = view.call;
  if (shape_.checksum) header.payload = crc32c(view.source, sentBytes(view));
  const size_t bytes = encode(header, {pushHeaders_.slot(count_.admitted), shape_.headerBytes});
  pushQueue_.push(pushHeaders_.message(count_.admitted, bytes));
}

Status RemoteLane::pushPayload(InFlight& flight) {
  const ChunkView& view = flight.view;
  auto* source = const_cast<uint8_t*>(view.source);
  const size_t bytes = sentBytes(view);
  if (bytes > 0 && !view.onGpu) flight.sendMemory = BPS_TRY(pushQueue_.comm().registerMemory(source, bytes));
  pushQueue_.push({source, bytes, view.onGpu ? gpu_.send : flight.sendMemory});
  return {};
}

Status RemoteLane::postAnswerReceives(InFlight& flight) {
  const ChunkView& view = flight.view;
  const uint64_t number = count_.receivesPosted++;
  answerQueue_.push(answerHeaders_.message(number, shape_.headerBytes));
  if (view.inPlace) {
    answerQueue_.push(answers_.message(number, shape_.maxChunkBytes));
  } else if (view.onGpu) {
    answerQueue_.push({view.target, view.bytes, gpu_.recv});
  } else {
    if (view.bytes > 0) flight.recvMemory = BPS_TRY(answerQueue_.comm().registerMemory(view.target, view.bytes));
    answerQueue_.push({view.target, view.bytes, flight.recvMemory});
  }
  return {};
}

Result<bool> RemoteLane::canRetire() {
  if (inFlight_.empty() || pushQueue_.done() < 2 * (count_.retired + 1)) return false;
  return answerQueue_.done() >= 2 * (count_.answered + 1) && BPS_TRY(isVisible(inFlight_.front()));
}

// The answer of this chunk has arrived. Returns true if the answer is also visible to the CPU and
// the GPU.
Result<bool> RemoteLane::isVisible(InFlight& flight) {
  if (!flight.view.onGpu || flight.view.bytes == 0) return true;
  if (!flight.flushed)
    flight.flush = BPS_TRY(answerQueue_.comm().flush(flight.view.target, flight.view.bytes, gpu_.recv));
  flight.flushed = true;
  if (!flight.flush) return true;
  const net::Completion completion = BPS_TRY(answerQueue_.comm().test(flight.flush));
  if (completion.done) flight.flush = {};
  return completion.done;
}

// Retires the oldest chunk in flight. The chunk has been sent and its answer has arrived.
Status RemoteLane::retire() {
  const InFlight flight = inFlight_.front();
  BPS_TRY(consumeAnswer(flight));
  if (flight.sendMemory != nullptr) pushQueue_.comm().deregister(flight.sendMemory);
  inFlight_.pop_front();
  if (times_.busy.since) times_.busy.before.bytes += flight.view.bytes;
  if (inFlight_.empty() && times_.busy.since) times_.busy = {work(), std::nullopt};
  if (shape_.recorder) record(trace::Stage::kRetired, flight, count_.retired);
  ++count_.retired;
  buffers_.finished(*flight.chunk.call, flight.chunk.index);
  return {};
}

Status RemoteLane::consumeAnswer(const InFlight& flight) {
  const size_t headerSize = answerQueue_.takeReceivedBytes(), payloadSize = answerQueue_.takeReceivedBytes();
  const DataHeader header = BPS_TRY(decodeDataHeader({answerHeaders_.slot(count_.answered), headerSize}));
  const bool parameters = flight.chunk.call->param.has_value();
  if (!header.isForChunk(count_.answered) || header.first || header.clock.has_value() != parameters ||
      payloadSize != answerBytes(flight.view))
    return failure(Code::kRemote,
                   "answer {}{} of {} bytes came where answer {} (modulo 65536) to call #{}, of {} bytes, was due",
                   header.sequence, header.first ? " with a call" : "", payloadSize,
                   DataHeader::sequenceForChunk(count_.answered), flight.view.call.number, answerBytes(flight.view));
  const uint8_t* received = flight.view.inPlace ? answers_.slot(count_.answered) : flight.view.target;
  if (shape_.checksum) BPS_TRY(checkPayload(header, {received, payloadSize}, count_.answered, flight.view.call));
  if (parameters) keepAnswer(flight, *header.clock, received);
  const bool writes = payloadSize > 0 && writesTarget(static_cast<CallOp>(flight.view.call.op));
  if (flight.view.inPlace && writes) std::memcpy(flight.view.target, received, payloadSize);
  else if (shape_.keepsSums && !flight.view.onGpu && payloadSize > 0)
    std::memcpy(answers_.slot(count_.answered), received, payloadSize);
  if (shape_.keepsSums) kept_.push_back({flight.view.call, payloadSize});
  if (kept_.size() > shape_.depth) kept_.pop_front();
  if (flight.recvMemory != nullptr) answerQueue_.comm().deregister(flight.recvMemory);
  ++count_.answered;
  return {};
}

// After the answer to an initial value, its sender has the value too.
void RemoteLane::keepAnswer(const InFlight& flight, const ParamClock& clock, const uint8_t* answer) const {
  const ParamCall& param = *flight.chunk.call->param;
  const auto op = static_cast<CallOp>(flight.view.call.op);
  param.note(clock);
  if (param.copies == nullptr || (!carriesAnswer(op) && op != CallOp::kParamSet)) return;
  param.copies->keep(*flight.chunk.call->partOf(chunkRefOf(flight.chunk)), clock,
                     op == CallOp::kParamSet ? flight.view.source : answer);
}

std::optional<LaneRemains> RemoteLane::takeRemains() {
  if (gpu_.send != nullptr) return {};
  LaneRemains remains;
  remains.retired = count_.retired;
  uint64_t number = count_.answered - kept_.size();
  for (const Kept& kept : kept_) {
    const uint8_t* sum = answers_.slot(number++);
    remains.sums.push_back({kept.call, {sum, sum + kept.bytes}});
  }
  for (const InFlight& flight : inFlight_) remains.chunks.push_back(flight.chunk);
  remains.chunks.insert(remains.chunks.end(), waiting_.begin(), waiting_.end());
  return remains;
}

Result<bool> RemoteLane::step(uint64_t oldestRound) {
  if (!failure_.ok()) return failure_.clone();
  Result<bool> moved = move(oldestRound);
  if (!moved.ok()) {
    failure_ = moved.error().clone();
    return moved;
  }
  for (const net::MessageQueue* queue : {&answerQueue_, &pushQueue_})
    if (!queue->failure().ok()) return queue->failure().clone();
  return moved;
}

bool RemoteLane::mayAdmit(uint64_t oldestRound) const {
  if (!nextReady()) return false;
  const auto& [call, index] = waiting_.front();
  const size_t window = std::min(shape_.depth, call->window);
  if (count_.admitted - count_.retired >= window) return false;
  // Requests to parameters have no rounds. If one lane waited for the others, the lane to a slow machine could hold
  // back the copies for the takeover that this machine waits for.
  const ChunkRef& chunk = call->chunks[index];
  return call->param || chunk.round < window || call->firstRound + chunk.round < oldestRound + window;
}

Result<bool> RemoteLane::move(uint64_t oldestRound) {
  // A step admits at most one chunk. So every owner gets its first chunk before any owner gets a
  // second chunk, and the first rounds are complete early.
  const bool admits = mayAdmit(oldestRound);
  if (admits) BPS_TRY(admit());
  const bool received = answerQueue_.step();
  const bool sent = pushQueue_.step();
  if (shape_.recorder) recordTransfers();
  const uint64_t before = count_.retired;
  while (BPS_TRY(canRetire())) BPS_TRY(retire());
  return admits || received || sent || count_.retired > before;
}

// Each chunk has two messages, its header and its payload. A chunk is retired only after both events.
void RemoteLane::recordTransfers() {
  for (uint64_t& chunk = count_.recordedPushed; chunk < pushQueue_.done() / 2; ++chunk)
    record(trace::Stage::kPushed, inFlight_[chunk - count_.retired], chunk);
  for (uint64_t& chunk = count_.recordedReceived; chunk < answerQueue_.done() / 2; ++chunk)
    record(trace::Stage::kReceived, inFlight_[chunk - count_.retired], chunk);
}

Lane::Work RemoteLane::work() const {
  Work work = times_.busy.before;
  if (times_.busy.since) work.busy += std::chrono::steady_clock::now() - *times_.busy.since;
  return work;
}

void RemoteLane::forEachComm(const std::function<void(net::Comm&)>& use) {
  use(pushQueue_.comm());
  use(answerQueue_.comm());
}

std::optional<uint64_t> RemoteLane::checkWait(std::chrono::milliseconds timeout) {
  if (inFlight_.empty() || times_.wait.retired != count_.retired) times_.wait = {count_.retired, Deadline::never()};
  if (inFlight_.empty()) return {};
  if (times_.wait.deadline.at() == Deadline::never().at()) times_.wait.deadline = Deadline::in(timeout);
  if (!times_.wait.deadline.passed()) return {};
  return inFlight_.front().view.call.number;
}

void RemoteLane::addPeerWaits(const std::string& owner, std::vector<PeerWait>& waits) const {
  if (inFlight_.empty() && !waiting_.empty()) return;
  waits.push_back({owner, PeerWait::Data::kSum, inFlight_.size(), count_.admitted - pushQueue_.done() / 2});
}

// Also tries a flush, because a NIC may be unable to access memory that it can register. If a flush
// failed later, after an answer, the communicator would end.
Status RemoteLane::registerGpuRegion(const net::GpuRegion& region, const net::GpuRegistrationModes& deviceModes,
                                     Deadline deadline) {
  const net::GpuRegistrationModes out = pushQueue_.comm().gpuRegistrationModes(deviceModes),
                                  in = answerQueue_.comm().gpuRegistrationModes(deviceModes);
  if (!out || !in) return {Code::kInvalidUsage, "the connection takes host memory only"};
  gpu_.send = BPS_TRY(pushQueue_.comm().registerGpu(region, out));
  const Status reached = registerGpuReceive(region, in, deadline);
  if (reached.ok()) return {};
  pushQueue_.comm().deregister(gpu_.send);
  gpu_.send = nullptr;
  return reached.clone();
}

Status RemoteLane::registerGpuReceive(const net::GpuRegion& region, const net::GpuRegistrationModes& modes,
                                      Deadline deadline) {
  gpu_.recv = BPS_TRY(answerQueue_.comm().registerGpu(region, modes));
  Result<bool> flushed = tryFlush(region, deadline);
  if (flushed.ok()) {
    if (std::move(flushed).value()) return {};
    // The region stays registered until the connection closes, because the NIC may still read it.
    return {Code::kSystem, "a flush of GPU memory does not end"};
  }
  answerQueue_.comm().deregister(std::exchange(gpu_.recv, nullptr));
  return std::move(flushed).status();
}

// Returns false if the flush does not end before the deadline.
Result<bool> RemoteLane::tryFlush(const net::GpuRegion& region, Deadline deadline) {
  const net::Request flush = BPS_TRY(answerQueue_.comm().flush(region.data, 1, gpu_.recv));
  // Test at least five times, because this thread may have been suspended until after the deadline.
  for (int tests = 1; flush; ++tests) {
    const bool last = deadline.passed() && tests >= 5;
    if (BPS_TRY(answerQueue_.comm().test(flush)).done) return true;
    if (last) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return true;
}

Result<bool> LocalLane::step(uint64_t) {
  bool moved = false;
  while (service_.canOffer() && nextReady()) {
    const Submitted chunk = waiting_.front();
    const ChunkView view = buffers_.view(*chunk.call, chunk.index);
    if (recorder_) record(trace::Stage::kChunkAdmitted, chunk, offered_);
    ++offered_;
    LocalChunk local{view.call, view.source, view.target, view.bytes, chunk.call->partOf(chunkRefOf(chunk))};
    if (local.part) {
      local.note = [call = chunk.call](const ParamClock& clock) { call->param->note(clock); };
      if (view.call.op == static_cast<uint8_t>(CallOp::kParamRestore)) local.restored = chunk.call->param->restored;
    }
    service_.offer(local);
    inService_.push_back(chunk);
    waiting_.pop_front();
    moved = true;
  }
  for (; retired_ < service_.retired(); ++retired_) {
    if (recorder_) record(trace::Stage::kRetired, inService_.front(), retired_);
    buffers_.finished(*inService_.front().call, inService_.front().index);
    inService_.pop_front();
    moved = true;
  }
  return moved;
}

}  // namespace bps
