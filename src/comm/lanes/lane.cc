#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "src/base/checksum/crc32c.h"
#include "src/base/format.h"
#include "src/comm/lanes/lane.h"

namespace bps {
Status Lane::registerGpuRegion(const net::GpuRegion&, const net::GpuRegistrationModes&, Deadline) {
  return {Code::kInvalidUsage, "its share is summed here, by the CPU"};
}

RemoteLane::RemoteLane(ChunkBuffers& buffers, const Shape& shape, net::PeerConnections connections)
    : Lane(buffers),
      shape_(shape),
      pushes_(std::move(connections.pushOut), net::MessageQueue::Direction::kSend),
      answers_(std::move(connections.answerIn), net::MessageQueue::Direction::kReceive) {}

Result<std::unique_ptr<Lane>> RemoteLane::create(ChunkBuffers& buffers, const Shape& shape,
                                                 net::PeerConnections connections) {
  std::unique_ptr<RemoteLane> lane(new RemoteLane(buffers, shape, std::move(connections)));
  BPS_TRY(lane->prepare());
  return std::unique_ptr<Lane>(std::move(lane));
}

Status RemoteLane::prepare() {
  pushHeaders_ = BPS_TRY(PageBuffer::create(shape_.depth * kDataHeaderBytes));
  answerHeaders_ = BPS_TRY(PageBuffer::create(shape_.depth * kDataHeaderBytes));
  staging_ = BPS_TRY(PageBuffer::create(shape_.depth * shape_.maxChunkBytes));
  copies_ = BPS_TRY(PageBuffer::create(shape_.depth * shape_.maxChunkBytes));
  pushHeaderMemory_ = BPS_TRY(pushes_.comm().registerMemory(pushHeaders_.data(), pushHeaders_.size()));
  answerHeaderMemory_ = BPS_TRY(answers_.comm().registerMemory(answerHeaders_.data(), answerHeaders_.size()));
  copiesMemory_ = BPS_TRY(pushes_.comm().registerMemory(copies_.data(), copies_.size()));
  stagingMemory_ = BPS_TRY(answers_.comm().registerMemory(staging_.data(), staging_.size()));
  return {};
}

// Puts the next chunk on its way. The place for its answer is posted first.
Status RemoteLane::admit() {
  const Submitted chunk = waiting_.front();
  InFlight flight{
      chunk, chunkRefOf(chunk).usesExchangePath(), false, buffers_.view(*chunk.call, chunk.index), nullptr, nullptr, {},
      false};
  const ChunkView& view = flight.view;
  DataHeader header;
  header.sequence = DataHeader::sequenceForChunk(admitted_);
  header.first = chunkRefOf(chunk).first;
  header.usesExchangePath = flight.usesExchangePath;
  header.call = view.call;
  if (shape_.checksum) header.payload = crc32c(view.source, view.bytes);
  DataHeaderBytes encoded;
  const size_t headerSize = encode(header, encoded);
  uint8_t* slot = headerSlot(pushHeaders_, admitted_);
  std::memcpy(slot, encoded.data(), headerSize);

  auto* source = const_cast<uint8_t*>(view.source);
  flight.copied = flight.usesExchangePath &&
                  (view.bytes <= constants::kMaxCopiedBytes || (view.inPlace && chunk.call->chunks.size() == 1));
  if (flight.copied) {
    source = stagingSlot(copies_, admitted_);
    if (view.bytes > 0) std::memcpy(source, view.source, view.bytes);
    --chunkRefOf(chunk).unsent;
  } else if (view.bytes > 0 && !view.onGpu) {
    flight.sendMemory = BPS_TRY(pushes_.comm().registerMemory(source, view.bytes));
  }
  if (!flight.usesExchangePath) BPS_TRY(postAnswerReceives(flight));
  pushes_.push({slot, headerSize, pushHeaderMemory_});
  void* sendMemory = view.onGpu ? gpuSendMemory_ : flight.sendMemory;
  pushes_.push({source, view.bytes, flight.copied ? copiesMemory_ : sendMemory});
  inFlight_.push_back(flight);
  waiting_.pop_front();
  ++admitted_;
  return {};
}

Status RemoteLane::postAnswerReceives(InFlight& flight) {
  const ChunkView& view = flight.view;
  answers_.push({headerSlot(answerHeaders_, expected_), kDataHeaderBytes, answerHeaderMemory_});
  if (view.inPlace) {
    answers_.push({stagingSlot(staging_, expected_), shape_.maxChunkBytes, stagingMemory_});
  } else if (view.onGpu) {
    answers_.push({view.target, view.bytes, gpuRecvMemory_});
  } else {
    if (view.bytes > 0) flight.recvMemory = BPS_TRY(answers_.comm().registerMemory(view.target, view.bytes));
    answers_.push({view.target, view.bytes, flight.recvMemory});
  }
  ++expected_;
  return {};
}

Result<bool> RemoteLane::canRetire() {
  if (inFlight_.empty() || pushes_.done() < 2 * (retired_ + 1)) return false;
  if (inFlight_.front().usesExchangePath) return true;
  return answers_.done() >= 2 * (answered_ + 1) && BPS_TRY(isVisible(inFlight_.front()));
}

// The answer of the oldest chunk, which has come, is where those see it who look next.
Result<bool> RemoteLane::isVisible(InFlight& flight) {
  if (!flight.view.onGpu || flight.view.bytes == 0) return true;
  if (!flight.flushed)
    flight.flush = BPS_TRY(answers_.comm().flush(flight.view.target, flight.view.bytes, gpuRecvMemory_));
  flight.flushed = true;
  if (!flight.flush) return true;
  const net::Completion completion = BPS_TRY(answers_.comm().test(flight.flush));
  if (completion.done) flight.flush = {};
  return completion.done;
}

// Takes the oldest chunk in flight, which has been sent and, unless it is direct, answered.
Status RemoteLane::retire() {
  const InFlight flight = inFlight_.front();
  if (!flight.usesExchangePath) BPS_TRY(consumeAnswer(flight));
  if (flight.sendMemory != nullptr) pushes_.comm().deregister(flight.sendMemory);
  inFlight_.pop_front();
  ++retired_;
  if (flight.usesExchangePath && !flight.copied) --chunkRefOf(flight.chunk).unsent;
  if (!flight.usesExchangePath) buffers_.finished(*flight.chunk.call, flight.chunk.index);
  return {};
}

Status RemoteLane::consumeAnswer(const InFlight& flight) {
  const size_t headerSize = answers_.takeReceivedBytes(), payloadSize = answers_.takeReceivedBytes();
  const DataHeader header = BPS_TRY(decodeDataHeader({headerSlot(answerHeaders_, answered_), headerSize}));
  if (!header.isForChunk(answered_) || header.first || payloadSize != flight.view.bytes)
    return failure(Code::kRemote,
                   "answer {}{} of {} bytes came where answer {} (modulo 65536) to call #{}, of {} bytes, was due",
                   header.sequence, header.first ? " with a call" : "", payloadSize,
                   DataHeader::sequenceForChunk(answered_), flight.view.call.number, flight.view.bytes);
  const uint8_t* received = flight.view.inPlace ? stagingSlot(staging_, answered_) : flight.view.target;
  if (shape_.checksum) BPS_TRY(checkPayload(header, {received, payloadSize}, answered_, flight.view.call));
  if (flight.view.inPlace) std::memcpy(flight.view.target, received, payloadSize);
  if (flight.recvMemory != nullptr) answers_.comm().deregister(flight.recvMemory);
  ++answered_;
  return {};
}

Result<bool> RemoteLane::step() {
  if (!failure_.ok()) return failure_.clone();
  Result<bool> moved = move();
  if (!moved.ok()) {
    failure_ = moved.error().clone();
    return moved;
  }
  for (const net::MessageQueue* queue : {&answers_, &pushes_})
    if (!queue->failure().ok()) return queue->failure().clone();
  return moved;
}

// No answer holds the chunks of a direct call back, so its sums do: what is under way stays in the caches.
bool RemoteLane::mayAdmit() const {
  if (!nextReady()) return false;
  const auto& [call, index] = waiting_.front();
  if (admitted_ - retired_ >= std::min(shape_.depth, call->window)) return false;
  return !call->chunks[index].usesExchangePath() ||
         index + call->remaining < call->chunks.size() + constants::kExchangeAhead;
}

Result<bool> RemoteLane::move() {
  // One at a time: the owners' first chunks go out before the second of any, so that their first rounds are soon whole.
  const bool admits = mayAdmit();
  if (admits) BPS_TRY(admit());
  const bool received = answers_.step();
  const bool sent = pushes_.step();
  const uint64_t before = retired_;
  while (BPS_TRY(canRetire())) BPS_TRY(retire());
  return admits || received || sent || retired_ > before;
}

void RemoteLane::forEachComm(const std::function<void(net::Comm&)>& use) {
  use(pushes_.comm());
  use(answers_.comm());
}

std::optional<uint64_t> RemoteLane::checkWait(std::chrono::milliseconds timeout) {
  if (inFlight_.empty() || retiredAtLastCheck_ != retired_) {
    retiredAtLastCheck_ = retired_;
    waitDeadline_ = Deadline::never();
  }
  if (inFlight_.empty()) return {};
  if (waitDeadline_.at() == Deadline::never().at()) waitDeadline_ = Deadline::in(timeout);
  if (!waitDeadline_.passed()) return {};
  return inFlight_.front().view.call.number;
}

// That memory can be registered does not say that the NIC reaches it, and later it would be too late: a flush that
// fails after an answer ends the communicator.
Status RemoteLane::registerGpuRegion(const net::GpuRegion& region, const net::GpuRegistrationModes& deviceModes,
                                     Deadline deadline) {
  const net::GpuRegistrationModes out = pushes_.comm().gpuRegistrationModes(deviceModes),
                                  in = answers_.comm().gpuRegistrationModes(deviceModes);
  if (!out || !in) return {Code::kInvalidUsage, "the connection takes host memory only"};
  gpuSendMemory_ = BPS_TRY(pushes_.comm().registerGpu(region, out));
  const Status reached = registerGpuReceive(region, in, deadline);
  if (reached.ok()) return {};
  pushes_.comm().deregister(gpuSendMemory_);
  gpuSendMemory_ = nullptr;
  return reached.clone();
}

Status RemoteLane::registerGpuReceive(const net::GpuRegion& region, const net::GpuRegistrationModes& modes,
                                      Deadline deadline) {
  gpuRecvMemory_ = BPS_TRY(answers_.comm().registerGpu(region, modes));
  Result<bool> flushed = tryFlush(region, deadline);
  if (flushed.ok()) {
    if (std::move(flushed).value()) return {};
    // It stays registered until the connection ends: the NIC may still read it.
    return {Code::kSystem, "a flush of GPU memory does not end"};
  }
  answers_.comm().deregister(std::exchange(gpuRecvMemory_, nullptr));
  return std::move(flushed).status();
}

// False: it does not end.
Result<bool> RemoteLane::tryFlush(const net::GpuRegion& region, Deadline deadline) {
  const net::Request flush = BPS_TRY(answers_.comm().flush(region.data, 1, gpuRecvMemory_));
  // A few looks in any case: this thread, too, may have been held up.
  for (int looks = 1; flush; ++looks) {
    const bool last = deadline.passed() && looks >= 5;
    if (BPS_TRY(answers_.comm().test(flush)).done) return true;
    if (last) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return true;
}

Result<bool> LocalLane::step() {
  bool moved = false;
  while (service_.canOffer() && nextReady()) {
    const Submitted chunk = waiting_.front();
    const ChunkView view = buffers_.view(*chunk.call, chunk.index);
    const LocalChunk local{view.call, view.source, view.target, view.bytes, chunkRefOf(chunk).usesExchangePath()};
    if (view.inPlace && chunkRefOf(chunk).unsent > 0) {
      service_.expect(local);
      break;
    }
    service_.offer(local);
    inService_.push_back(chunk);
    waiting_.pop_front();
    moved = true;
  }
  for (; retired_ < service_.retired() && chunkRefOf(inService_.front()).unsent == 0; ++retired_) {
    buffers_.finished(*inService_.front().call, inService_.front().index);
    inService_.pop_front();
    moved = true;
  }
  return moved;
}

}  // namespace bps
