#include "net_plugin/verbs/ib/send_comm.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "src/base/format.h"

namespace bps::plugin::verbs {

Status SendComm::start() {
  BPS_TRY(QueueComm::start());
  for (uint64_t i = 0; i < kGrants; ++i) BPS_TRY(queue().receive(i, grantSge(i)));
  return {};
}

// Copies the grant, so that its entry in the page of grants is free before the message of the grant
// is sent. The peer has at most kGrants receives in flight.
Status SendComm::takeGrant(const ibv_wc& completion) {
  Grant grant;
  std::memcpy(&grant, &grantSlot(completion.wr_id), sizeof grant);
  if (completion.byte_len != sizeof grant || grant.magic != Grant::kMagic ||
      grant.number != static_cast<uint32_t>(grantsEnd_))
    return protocolError(fmt::format("expected the grant of message {}", grantsEnd_));
  if (grantsEnd_ - next_ >= kGrants) return protocolError("too many grants");
  if (grant.room > kMaxMessageBytes) return protocolError(fmt::format("a receive of {} bytes", grant.room));
  granted_[grantsEnd_++ % kGrants] = grant;
  return queue().receive(completion.wr_id, grantSge(completion.wr_id));
}

void SendComm::finishUpTo(uint64_t index) {
  while (!requests().idle() && requests().active() <= index) {
    releaseBuffer(requests().active());
    requests().finishFront(requests().front().bytes);
  }
}

// The id of a work request is the number of its message, shifted left by one bit. Bit 0 marks the
// last piece of the message.
Status SendComm::onCompletion(const ibv_wc& completion) {
  if ((completion.opcode & IBV_WC_RECV) != 0) return takeGrant(completion);
  --inFlight_;
  if ((completion.wr_id & 1) != 0) finishUpTo(completion.wr_id >> 1);
  return {};
}

Status SendComm::postPiece(const Request& request, const Grant& grant, size_t pieces) {
  const uint64_t offset = std::min<uint64_t>(piece_ * params().pieceBytes, request.bytes);
  const uint64_t length = std::min(params().pieceBytes, request.bytes - offset);
  const bool last = piece_ + 1 == pieces;
  ibv_sge place{reinterpret_cast<uintptr_t>(buffer_.data) + offset, static_cast<uint32_t>(length), buffer_.localKey};
  ibv_send_wr piece{};
  piece.wr_id = next_ << 1 | (last ? 1 : 0);
  piece.sg_list = &place;
  piece.num_sge = length > 0 ? 1 : 0;
  piece.send_flags = queue().sendFlags(length, buffer_.onGpu);
  piece.opcode = IBV_WR_SEND;
  if (params().write) {
    piece.opcode = last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    piece.imm_data = htonl(static_cast<uint32_t>(request.bytes));
    piece.wr.rdma.remote_addr = grant.address + offset;
    piece.wr.rdma.rkey = grant.key;
  }
  BPS_TRY(queue().send(piece));
  ++inFlight_;
  return {};
}

Status SendComm::tooLarge(const Request& request, const Grant& grant) {
  BPS_TRY(livenessSocket().sendMessage(encodeNotice({Notice::Kind::kTooLarge, next_, request.bytes})));
  return failure(Code::kInvalidUsage,
                 "message {} of {} bytes is larger than the receive of {} bytes that {} has posted", next_,
                 request.bytes, grant.room, peer());
}

// Posts the next message. Returns false if the queue becomes full before all pieces of the message
// are posted.
Result<bool> SendComm::postMessage() {
  const Request& request = requests().at(next_);
  const Grant& grant = granted_[next_ % kGrants];
  if (request.bytes > grant.room) return tooLarge(request, grant);
  if (inFlight_ == queue().depths().sends) return false;
  const size_t pieces = piecesOf(params().write ? request.bytes : grant.room, params().pieceBytes);
  if (piece_ == 0) {
    buffer_ = BPS_TRY(resolveBuffer(next_));
    if (uint8_t* bounce = bounceSlot(next_)) std::memcpy(bounce, request.data, request.bytes);
  }
  for (; piece_ < pieces; ++piece_) {
    if (inFlight_ == queue().depths().sends) return false;
    BPS_TRY(postPiece(request, grant, pieces));
  }
  piece_ = 0;
  ++next_;
  return true;
}

// Limits the number of bytes that one call posts, because a software device transfers the data
// inside the call that posts.
Status SendComm::postMore() {
  size_t posted = 0;
  setHasMoreToMove(false);
  while (next_ < std::min(requests().end(), grantsEnd_)) {
    if (posted >= kMaxBytesPerCall) {
      setHasMoreToMove(true);
      return {};
    }
    posted += requests().at(next_).bytes;
    if (!BPS_TRY(postMessage())) return {};
  }
  return {};
}

Status SendComm::onNotice(const Notice& notice) {
  if (notice.kind != Notice::Kind::kGoodbye || notice.number > next_)
    return protocolError(fmt::format("notice {} of message {}", static_cast<int>(notice.kind), notice.number));
  received_ = notice.number;
  return {};
}

Status SendComm::applyNotices() {
  if (received_ > 0) finishUpTo(received_ - 1);
  return {};
}

}  // namespace bps::plugin::verbs
