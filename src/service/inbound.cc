#include "src/service/inbound.h"

#include "cpu_reduce/reduce.h"
#include "src/base/format.h"

namespace bps {

Inbound::Inbound(std::unique_ptr<net::Comm> push, size_t depth, size_t maxChunkBytes)
    : queue_(std::move(push), net::MessageQueue::Direction::kReceive),
      depth_(depth),
      maxChunkBytes_(maxChunkBytes),
      headers_(depth) {}

Result<std::unique_ptr<Inbound>> Inbound::create(std::unique_ptr<net::Comm> push, size_t depth, size_t maxChunkBytes) {
  std::unique_ptr<Inbound> inbound(new Inbound(std::move(push), depth, maxChunkBytes));
  inbound->payloads_ = BPS_TRY(PageBuffer::create(depth * maxChunkBytes));
  inbound->headerBytes_ = BPS_TRY(PageBuffer::create(depth * kDataHeaderBytes));
  net::Comm& comm = inbound->comm();
  inbound->memory_ = BPS_TRY(comm.registerMemory(inbound->payloads_.data(), inbound->payloads_.size()));
  inbound->headerMemory_ = BPS_TRY(comm.registerMemory(inbound->headerBytes_.data(), inbound->headerBytes_.size()));
  return inbound;
}

Result<bool> Inbound::step(uint64_t released) {
  if (closed_) return false;
  for (; posted_ < released + depth_; ++posted_) {
    queue_.push({headerBytes_.data() + posted_ % depth_ * kDataHeaderBytes, kDataHeaderBytes, headerMemory_});
    queue_.push({slot(posted_), maxChunkBytes_, memory_});
  }
  const bool moved = queue_.step();
  Status failed;
  while (failed.ok() && queue_.done() >= 2 * (arrived_ + 1)) failed = take();
  if (failed.ok()) failed = queue_.failure().clone();
  if (failed.ok()) return moved;
  closed_ = true;
  return failed;
}

Status Inbound::take() {
  const size_t headerSize = queue_.takeReceivedBytes(), payloadSize = queue_.takeReceivedBytes();
  const uint8_t* bytes = headerBytes_.data() + arrived_ % depth_ * kDataHeaderBytes;
  DataHeader header = BPS_TRY(decodeDataHeader({bytes, headerSize}));
  if (header.sequence != arrived_)
    return failure(Code::kRemote, "chunk {} came where chunk {} was due", header.sequence, arrived_);
  if (header.bytes != payloadSize)
    return failure(Code::kRemote, "chunk {} announced {} bytes and brought {}", arrived_, header.bytes, payloadSize);
  if (header.first) {
    call_ = header.call;
  } else if (header.call.number != call_.number || arrived_ == 0) {
    return failure(Code::kRemote, "chunk {} belongs to call #{}, which was not announced", arrived_,
                   header.call.number);
  }
  header.call = call_;
  if (payloadSize % elementBytes(static_cast<DataType>(call_.type)) != 0)
    return failure(Code::kRemote, "chunk {} of {} bytes is not whole elements", arrived_, payloadSize);
  headers_[arrived_ % depth_] = header;
  ++arrived_;
  return {};
}

}  // namespace bps
