#include "net_plugin/verbs/ib/recv_comm.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "src/base/format.h"

namespace bps::plugin::verbs {

// The sender's device reports the arrival of a message later than the device of this end does.
// After this end has destroyed its queue pair, the sender's device reports no arrival. The goodbye
// notice therefore tells the sender which messages have been received.
RecvComm::~RecvComm() {
  if (!isActive()) return;
  const Status told = livenessSocket().sendMessage(encodeNotice({Notice::Kind::kGoodbye, requests().active(), 0}));
  static_cast<void>(told.ok());  // a peer that has already left needs no goodbye
}

Status RecvComm::start() {
  BPS_TRY(QueueComm::start());
  if (!params().write) return {};
  for (uint64_t i = 0; i < kGrants; ++i) BPS_TRY(queue().receive(i, {}));
  return {};
}

Status RecvComm::sendGrant(const Request& request, const DeviceBuffer& view) {
  Grant& grant = grantSlot(granted_);
  grant = {.number = static_cast<uint32_t>(granted_),
           .address = reinterpret_cast<uintptr_t>(view.data),
           .room = request.bytes,
           .key = view.remoteKey};
  if (!params().write) grant.address = grant.key = 0;
  ibv_sge place = grantSge(granted_);
  ibv_send_wr send{};
  send.sg_list = &place;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND;
  send.send_flags = queue().sendFlags(sizeof grant);
  BPS_TRY(queue().send(send));
  ++grantsInFlight_;
  return {};
}

// A flush works even after the connection has ended, because the peer may close right after its
// last message.
Result<Request*> RecvComm::flushMemory(void* data, size_t bytes, void* memory) {
  auto* known = static_cast<Registration*>(memory);
  if (known == nullptr || !known->onGpu || bytes == 0) return nullptr;
  if (!known->covers(data, bytes))
    return failure(Code::kInvalidArgument, "a flush of {} bytes at {:#x} is outside its registration, {:#x} to {:#x}",
                   bytes, reinterpret_cast<uintptr_t>(data), known->begin, known->end);
  if (!flusher_) {
    flusher_ = BPS_TRY(Flusher::create(device()));
    if (hasWaitFd()) BPS_TRY(addToEpoll(flusher_->eventFd()));
  }
  Request* request = BPS_TRY(flusher_->read(static_cast<uint8_t*>(data), *known));
  if (request == nullptr)
    return failure(Code::kInvalidUsage, "more than {} flushes are in flight", RequestRing::kCapacity);
  return request;
}

Result<int> RecvComm::waitFd() {
  const bool slept = hasWaitFd();
  const int fd = BPS_TRY(QueueComm::waitFd());
  if (!slept && flusher_) BPS_TRY(addToEpoll(flusher_->eventFd()));
  return fd;
}

Result<bool> RecvComm::arm() {
  const bool flushed = flusher_ != nullptr && BPS_TRY(flusher_->arm());
  if (flushed) return true;
  return QueueComm::arm();
}

// Grants the next receive to the sender. Returns false if the queues are full now.
Result<bool> RecvComm::grantNext() {
  const Request& request = requests().at(granted_);
  const size_t places = params().write ? 0 : piecesOf(request.bytes, params().pieceBytes);
  if (places > queue().depths().receives)
    return failure(Code::kInvalidUsage, "a receive of {} bytes needs {} requests, the queue has {} ({} bytes each)",
                   request.bytes, places, queue().depths().receives, params().pieceBytes);
  if (grantsInFlight_ == queue().depths().sends || receivesPosted_ + places > queue().depths().receives) return false;
  const DeviceBuffer view = BPS_TRY(resolveBuffer(granted_));
  for (size_t i = 0; i < places; ++i) {
    const uint64_t offset = i * params().pieceBytes;
    const auto length = static_cast<uint32_t>(std::min(params().pieceBytes, request.bytes - offset));
    BPS_TRY(queue().receive(granted_, {reinterpret_cast<uintptr_t>(view.data) + offset, length, view.localKey}));
    ++receivesPosted_;
  }
  BPS_TRY(sendGrant(request, view));
  ++granted_;
  return true;
}

Status RecvComm::postMore() {
  while (granted_ < requests().end())
    if (!BPS_TRY(grantNext())) return {};
  return {};
}

void RecvComm::finish(size_t bytes) {
  const uint64_t index = requests().active();
  if (const uint8_t* bounce = bounceSlot(index)) std::memcpy(requests().front().data, bounce, bytes);
  releaseBuffer(index);
  requests().finishFront(bytes);
}

Status RecvComm::onWriteArrived(const ibv_wc& completion) {
  const size_t bytes = ntohl(completion.imm_data);
  if (completion.opcode != IBV_WC_RECV_RDMA_WITH_IMM || bytes > requests().front().bytes)
    return protocolError(fmt::format("{} bytes for a receive of {}", bytes, requests().front().bytes));
  BPS_TRY(queue().receive(completion.wr_id, {}));
  finish(bytes);
  return {};
}

// Every piece before the last piece with data is full. Every piece after the last piece with data
// is empty.
Status RecvComm::onPieceArrived(const ibv_wc& completion) {
  const size_t room = requests().front().bytes;
  const size_t before = receivedPieces_ * params().pieceBytes;
  if (completion.opcode != IBV_WC_RECV || (completion.byte_len > 0 && receivedBytes_ != before))
    return protocolError(fmt::format("a piece of {} bytes after {}", completion.byte_len, receivedBytes_));
  --receivesPosted_;
  receivedBytes_ += completion.byte_len;
  if (++receivedPieces_ < piecesOf(room, params().pieceBytes)) return {};
  const size_t bytes = receivedBytes_;
  receivedPieces_ = receivedBytes_ = 0;
  finish(bytes);
  return {};
}

Status RecvComm::onCompletion(const ibv_wc& completion) {
  if ((completion.opcode & IBV_WC_RECV) == 0) {
    --grantsInFlight_;
    return {};
  }
  if (requests().active() == granted_) return protocolError("a message without a grant");
  return params().write ? onWriteArrived(completion) : onPieceArrived(completion);
}

Status RecvComm::onNotice(const Notice& notice) {
  if (notice.kind != Notice::Kind::kTooLarge)
    return protocolError(fmt::format("notice {}", static_cast<int>(notice.kind)));
  tooLarge_ = notice;
  return {};
}

// Reports a message that is too large only after all messages before it are done.
Status RecvComm::applyNotices() {
  if (!tooLarge_ || tooLarge_->number != requests().active() || requests().idle()) return {};
  return failure(Code::kInvalidUsage, "{} sent a message of {} bytes into a receive of {} bytes", peer(),
                 tooLarge_->bytes, requests().front().bytes);
}

}  // namespace bps::plugin::verbs
