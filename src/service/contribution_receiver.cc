#include "src/service/contribution_receiver.h"

#include "cpu_reduce/reduce.h"
#include "src/base/format.h"

namespace bps {

ContributionReceiver::ContributionReceiver(std::unique_ptr<net::Comm> push, const Shape& shape)
    : queue_(std::move(push), net::MessageQueue::Direction::kReceive), shape_(shape), contributions_(shape.depth) {}

Result<std::unique_ptr<ContributionReceiver>> ContributionReceiver::create(std::unique_ptr<net::Comm> push,
                                                                           const Shape& shape) {
  std::unique_ptr<ContributionReceiver> inbound(new ContributionReceiver(std::move(push), shape));
  inbound->payloads_ = BPS_TRY(PageBuffer::create(shape.depth * shape.maxChunkBytes));
  inbound->headerBytes_ = BPS_TRY(PageBuffer::create(shape.depth * shape.headerBytes));
  net::Comm& comm = inbound->comm();
  inbound->memory_ = BPS_TRY(comm.registerMemory(inbound->payloads_.data(), inbound->payloads_.size()));
  inbound->headerMemory_ = BPS_TRY(comm.registerMemory(inbound->headerBytes_.data(), inbound->headerBytes_.size()));
  return inbound;
}

Result<bool> ContributionReceiver::step(uint64_t released) {
  if (closed_) return false;
  for (; posted_ < released + shape_.depth; ++posted_) {
    queue_.push({headerBytes_.data() + posted_ % shape_.depth * shape_.headerBytes, shape_.headerBytes, headerMemory_});
    queue_.push({slot(posted_), shape_.maxChunkBytes, memory_});
  }
  const bool moved = queue_.step();
  Status failed;
  while (failed.ok() && queue_.done() >= 2 * (arrived_ + 1)) failed = take();
  if (failed.ok()) failed = queue_.failure().clone();
  if (failed.ok()) return moved;
  closed_ = true;
  comm().markFailed();
  return failed;
}

Status ContributionReceiver::take() {
  const size_t headerSize = queue_.takeReceivedBytes(), payloadSize = queue_.takeReceivedBytes();
  const uint8_t* bytes = headerBytes_.data() + arrived_ % shape_.depth * shape_.headerBytes;
  DataHeader header = BPS_TRY(decodeDataHeader({bytes, headerSize}));
  if (!header.isForChunk(arrived_))
    return failure(Code::kRemote, "received chunk {} instead of chunk {} (modulo 65536)", header.sequence,
                   DataHeader::sequenceForChunk(arrived_));
  if (header.first && header.part.has_value() != shape_.parameters)
    return failure(Code::kRemote, "received a chunk of {}, but this communicator {}", describe(header.call),
                   shape_.parameters ? "keeps parameters" : "has no parameters");
  if (shape_.parameters && !header.part) return failure(Code::kRemote, "chunk {} names no parameter", arrived_);
  if (header.first) call_ = header.call;
  else if (arrived_ == 0) return failure(Code::kRemote, "the first chunk has no call information");
  if (payloadSize % elementBytes(static_cast<DataType>(call_.type)) != 0)
    return failure(Code::kRemote, "chunk {} of {} bytes is not a whole number of elements", arrived_, payloadSize);
  if (shape_.checksum) BPS_TRY(checkPayload(header, {slot(arrived_), payloadSize}, arrived_, call_));
  contributions_[arrived_ % shape_.depth] = {call_, slot(arrived_), payloadSize,
                                             false, header.part,    std::move(header.clock)};
  bytesReceived_ += payloadSize;
  ++arrived_;
  return {};
}

}  // namespace bps
