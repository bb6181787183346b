#include "src/comm/lanes/bcube/bcube_connections.h"

#include "src/base/checksum/crc32c.h"
#include "src/base/format.h"

namespace bps {
namespace {

constexpr size_t kBlockBytes = sizeof(uint64_t), kPlaceBytes = kBlockBytes + 1;
constexpr size_t kMaxHeaderBytes = kPlaceBytes + kDataHeaderBytes;

}  // namespace

Result<std::unique_ptr<BcubeSender>> BcubeSender::create(std::unique_ptr<net::Comm> comm,
                                                         const BcubeConnectionShape& shape) {
  std::unique_ptr<BcubeSender> sender(new BcubeSender(std::move(comm), shape.checksum));
  BPS_TRY(sender->headers_.prepare(sender->comm(), shape.slots, kMaxHeaderBytes));
  return sender;
}

Status BcubeSender::send(const BcubeSlice& slice) {
  auto* data = const_cast<uint8_t*>(slice.data);
  void* memory = slice.bytes > 0 ? BPS_TRY(comm().registerMemory(data, slice.bytes)) : nullptr;
  if (memory != nullptr) registered_.emplace_back(sent_, memory);
  DataHeader header;
  header.sequence = DataHeader::sequenceForChunk(sent_);
  header.first = true;
  header.call = slice.call;
  if (checksum_) header.payload = crc32c(slice.data, slice.bytes);
  uint8_t* at = headers_.slot(sent_);
  for (size_t i = 0; i < kBlockBytes; ++i) at[i] = static_cast<uint8_t>(slice.block >> (8 * i));
  at[kBlockBytes] = slice.step;
  DataHeaderBytes encoded;
  const size_t size = encode(header, encoded);
  std::copy_n(encoded.begin(), size, at + kPlaceBytes);
  queue_.push(headers_.message(sent_, kPlaceBytes + size));
  queue_.push({data, slice.bytes, memory});
  ++sent_;
  return {};
}

bool BcubeSender::step() {
  if (idle()) return false;
  const bool moved = queue_.step();
  for (; !registered_.empty() && registered_.front().first < done(); registered_.pop_front())
    comm().deregister(registered_.front().second);
  return moved;
}

Result<std::unique_ptr<BcubeReceiver>> BcubeReceiver::create(std::unique_ptr<net::Comm> comm,
                                                             const BcubeConnectionShape& shape) {
  std::unique_ptr<BcubeReceiver> receiver(new BcubeReceiver(std::move(comm), shape));
  BPS_TRY(receiver->headers_.prepare(receiver->comm(), shape.slots, kMaxHeaderBytes));
  BPS_TRY(receiver->payloads_.prepare(receiver->comm(), shape.slots, shape.maxSliceBytes));
  return receiver;
}

bool BcubeReceiver::step() {
  if (!failure_.ok()) return false;
  for (; posted_ < oldest() + shape_.slots; ++posted_) {
    queue_.push(headers_.message(posted_, kMaxHeaderBytes));
    queue_.push(payloads_.message(posted_, shape_.maxSliceBytes));
  }
  const bool moved = queue_.step();
  while (failure_.ok() && queue_.done() >= 2 * (arrived_ + 1)) failure_ = take();
  if (failure_.ok() && !queue_.failure().ok()) failure_ = queue_.failure().clone();
  if (!failure_.ok()) comm().markFailed();
  return moved;
}

Status BcubeReceiver::take() {
  const size_t headerBytes = queue_.takeReceivedBytes(), payloadBytes = queue_.takeReceivedBytes();
  const std::span<const uint8_t> bytes(headers_.slot(arrived_), headerBytes);
  if (headerBytes < kPlaceBytes) return failure(Code::kRemote, "received a slice header of {} bytes", headerBytes);
  BcubeSlice slice;
  for (size_t i = 0; i < kBlockBytes; ++i) slice.block |= static_cast<uint64_t>(bytes[i]) << (8 * i);
  slice.step = bytes[kBlockBytes];
  const DataHeader header = BPS_TRY(decodeDataHeader(bytes.subspan(kPlaceBytes)));
  if (!header.isForChunk(arrived_))
    return failure(Code::kRemote, "received slice {} instead of slice {} (modulo 65536)", header.sequence,
                   DataHeader::sequenceForChunk(arrived_));
  if (!header.first || slice.step >= shape_.steps)
    return failure(Code::kRemote, "received a slice of step {} of {} steps, {} a call", slice.step, shape_.steps,
                   header.first ? "with" : "without");
  slice.call = header.call;
  slice.data = payloads_.slot(arrived_);
  slice.bytes = payloadBytes;
  if (shape_.checksum) BPS_TRY(checkPayload(header, {slice.data, slice.bytes}, arrived_, slice.call));
  slices_.push_back({slice});
  ++arrived_;
  return {};
}

void BcubeReceiver::release(uint64_t number) {
  slices_[number - oldest()].released = true;
  while (!slices_.empty() && slices_.front().released) slices_.pop_front();
}

void BcubeReceiver::setNeeded(bool needed) {
  if (comm().needed() == needed) return;
  comm().setNeeded(needed);
  if (needed) comm().setAwake(true);
}

}  // namespace bps
