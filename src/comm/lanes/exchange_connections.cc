#include "src/comm/lanes/exchange_connections.h"

#include <cstring>

#include "src/base/format.h"

namespace bps {
namespace {

constexpr size_t kBlockHeaderBytes = 1 + kDataHeaderBytes;

}  // namespace

Result<std::unique_ptr<ExchangeSender>> ExchangeSender::create(std::unique_ptr<net::Comm> comm,
                                                               const ExchangeShape& shape) {
  std::unique_ptr<ExchangeSender> sender(new ExchangeSender(std::move(comm)));
  BPS_TRY(sender->headers_.prepare(sender->comm(), shape.slots, shape.blocks * kBlockHeaderBytes));
  BPS_TRY(sender->payloads_.prepare(sender->comm(), shape.slots, shape.blocks * shape.maxChunkBytes));
  return sender;
}

void ExchangeSender::addHeader(const ExchangeBlock& block) {
  uint8_t* at = headers_.slot(sent_) + headerBytes_;
  at[0] = block.headerBytes;
  std::memcpy(at + 1, block.header.data(), block.headerBytes);
  headerBytes_ += 1U + block.headerBytes;
}

void ExchangeSender::add(const ExchangeBlock& block) {
  addHeader(block);
  if (block.bytes > 0) std::memcpy(payloads_.slot(sent_) + payloadBytes_, block.data, block.bytes);
  payloadBytes_ += block.bytes;
}

void ExchangeSender::pushHeaders() {
  queue_.push(headers_.message(sent_, headerBytes_));
  headerBytes_ = 0;
}

void ExchangeSender::send() {
  pushHeaders();
  queue_.push(payloads_.message(sent_, payloadBytes_));
  payloadBytes_ = 0;
  ++sent_;
}

Status ExchangeSender::sendDirectly(const ExchangeBlock& block) {
  auto* data = const_cast<uint8_t*>(block.data);
  void* memory = BPS_TRY(comm().registerMemory(data, block.bytes));
  if (memory != nullptr) registered_.emplace_back(sent_, memory);
  addHeader(block);
  pushHeaders();
  queue_.push({data, block.bytes, memory});
  ++sent_;
  return {};
}

bool ExchangeSender::step() {
  if (idle()) return false;
  const bool moved = queue_.step();
  for (; !registered_.empty() && registered_.front().first < done(); registered_.pop_front())
    comm().deregister(registered_.front().second);
  return moved;
}

ExchangeReceiver::ExchangeReceiver(std::unique_ptr<net::Comm> comm, const ExchangeShape& shape)
    : shape_(shape),
      queue_(std::move(comm), net::MessageQueue::Direction::kReceive),
      messages_(shape.slots, std::vector<ExchangeBlock>(shape.blocks)),
      calls_(shape.blocks) {}

Result<std::unique_ptr<ExchangeReceiver>> ExchangeReceiver::create(std::unique_ptr<net::Comm> comm,
                                                                   const ExchangeShape& shape) {
  std::unique_ptr<ExchangeReceiver> receiver(new ExchangeReceiver(std::move(comm), shape));
  BPS_TRY(receiver->headers_.prepare(receiver->comm(), shape.slots, shape.blocks * kBlockHeaderBytes));
  BPS_TRY(receiver->payloads_.prepare(receiver->comm(), shape.slots, shape.blocks * shape.maxChunkBytes));
  return receiver;
}

bool ExchangeReceiver::step(uint64_t released) {
  if (!failure_.ok()) return false;
  for (; posted_ < released + shape_.slots; ++posted_) {
    queue_.push(headers_.message(posted_, shape_.blocks * kBlockHeaderBytes));
    queue_.push(payloads_.message(posted_, shape_.blocks * shape_.maxChunkBytes));
  }
  const bool moved = queue_.step();
  while (failure_.ok() && queue_.done() >= 2 * (arrived_ + 1)) failure_ = take();
  if (failure_.ok() && !queue_.failure().ok()) failure_ = queue_.failure().clone();
  if (!failure_.ok()) comm().markFailed();
  return moved;
}

Status ExchangeReceiver::take() {
  const size_t headerBytes = queue_.takeReceivedBytes(), payloadBytes = queue_.takeReceivedBytes();
  if (payloadBytes % shape_.blocks != 0)
    return failure(Code::kRemote, "received {} bytes of {} equal contributions", payloadBytes, shape_.blocks);
  std::span<const uint8_t> headers(headers_.slot(arrived_), headerBytes);
  std::vector<ExchangeBlock>& blocks = messages_[arrived_ % shape_.slots];
  for (size_t i = 0; i < shape_.blocks; ++i) {
    blocks[i].bytes = payloadBytes / shape_.blocks;
    blocks[i].data = payloads_.slot(arrived_) + i * blocks[i].bytes;
    BPS_TRY(takeHeader(headers, i));
  }
  if (!headers.empty())
    return failure(Code::kRemote, "received {} bytes after the headers of {} contributions", headers.size(),
                   shape_.blocks);
  ++arrived_;
  return {};
}

// Decodes the first of the headers and removes it.
Status ExchangeReceiver::takeHeader(std::span<const uint8_t>& headers, size_t index) {
  ExchangeBlock& block = messages_[arrived_ % shape_.slots][index];
  const size_t size = headers.empty() ? 0 : headers[0];
  if (size > block.header.size() || size >= headers.size())
    return failure(Code::kRemote, "the headers of {} contributions are truncated", shape_.blocks);
  const std::span<const uint8_t> encoded = headers.subspan(1, size);
  headers = headers.subspan(1 + size);
  const DataHeader header = BPS_TRY(decodeDataHeader(encoded));
  if (!header.isForChunk(arrived_))
    return failure(Code::kRemote, "received chunk {} instead of chunk {} (modulo 65536)", header.sequence,
                   DataHeader::sequenceForChunk(arrived_));
  if (header.first) calls_[index] = header.call;
  else if (arrived_ == 0) return failure(Code::kRemote, "the first chunk has no call information");
  std::memcpy(block.header.data(), encoded.data(), size);
  block.headerBytes = static_cast<uint8_t>(size);
  block.first = header.first;
  block.call = calls_[index];
  if (shape_.checksum) BPS_TRY(checkPayload(header, {block.data, block.bytes}, arrived_, block.call));
  return {};
}

void ExchangeReceiver::setNeeded(bool needed) {
  if (comm().needed() == needed) return;
  comm().setNeeded(needed);
  if (needed) comm().setAwake(true);
}

}  // namespace bps
