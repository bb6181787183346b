#include "net_plugin/verbs/ib/recv_comm.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

#include "src/base/format.h"

namespace bps::plugin::verbs {

// The device tells the sender that a message arrived some time after it has told us, and not at all once the queue pair
// is gone. So the sender learns from us what it need not wait for.
RecvComm::~RecvComm() {
  if (!begun()) return;
  const Status told = lifeline().say(encodeNotice({Notice::Kind::kGoodbye, requests().active(), 0}));
  static_cast<void>(told.ok());  // a peer that has gone first needs no goodbye
}

Status RecvComm::start() {
  BPS_TRY(QueueComm::start());
  if (!terms().write) return {};
  for (uint64_t i = 0; i < kGrants; ++i) BPS_TRY(queue().receive(i, {}));
  return {};
}

Status RecvComm::sendGrant(const Request& request, const View& view) {
  Grant& grant = grantPlace(granted_);
  grant = {.number = static_cast<uint32_t>(granted_),
           .address = reinterpret_cast<uintptr_t>(view.data),
           .room = request.bytes,
           .key = view.remoteKey};
  if (!terms().write) grant.address = grant.key = 0;
  ibv_sge place = grantPiece(granted_);
  ibv_send_wr send{};
  send.sg_list = &place;
  send.num_sge = 1;
  send.opcode = IBV_WR_SEND;
  send.send_flags = queue().sendFlags(sizeof grant);
  BPS_TRY(queue().send(send));
  ++grantsInFlight_;
  return {};
}

// The word that the last message has come may be followed by the peer's end, so this asks for no living connection.
Result<Request*> RecvComm::flushMemory(void* data, size_t bytes, void* memory) {
  auto* known = static_cast<Registration*>(memory);
  if (known == nullptr || !known->onGpu || bytes == 0) return nullptr;
  if (!known->covers(data, bytes))
    return failure(Code::kInvalidArgument, "a flush of {} bytes at {:#x}: the memory that it names is {:#x} to {:#x}",
                   bytes, reinterpret_cast<uintptr_t>(data), known->begin, known->end);
  if (!flusher_) {
    flusher_ = BPS_TRY(Flusher::create(device()));
    if (sleeps()) BPS_TRY(wakeOn(flusher_->eventFd()));
  }
  Request* request = BPS_TRY(flusher_->read(static_cast<uint8_t*>(data), *known));
  if (request == nullptr)
    return failure(Code::kInvalidUsage, "more than {} flushes are under way", RequestRing::kCapacity);
  return request;
}

Result<int> RecvComm::waitFd() {
  const bool slept = sleeps();
  const int fd = BPS_TRY(QueueComm::waitFd());
  if (!slept && flusher_) BPS_TRY(wakeOn(flusher_->eventFd()));
  return fd;
}

Result<bool> RecvComm::arm() {
  const bool flushed = flusher_ != nullptr && BPS_TRY(flusher_->arm());
  if (flushed) return true;
  return QueueComm::arm();
}

// False: not now, the queues are full.
Result<bool> RecvComm::grantNext() {
  const Request& request = requests().at(granted_);
  const size_t places = terms().write ? 0 : piecesOf(request.bytes, terms().pieceBytes);
  if (places > queue().depths().receives)
    return failure(Code::kInvalidUsage, "a receive of {} bytes needs {} requests at once, there are {} ({} bytes each)",
                   request.bytes, places, queue().depths().receives, terms().pieceBytes);
  if (grantsInFlight_ == queue().depths().sends || placesPosted_ + places > queue().depths().receives) return false;
  const View view = BPS_TRY(viewOf(granted_));
  for (size_t i = 0; i < places; ++i) {
    const uint64_t offset = i * terms().pieceBytes;
    const auto length = static_cast<uint32_t>(std::min(terms().pieceBytes, request.bytes - offset));
    BPS_TRY(queue().receive(granted_, {reinterpret_cast<uintptr_t>(view.data) + offset, length, view.localKey}));
    ++placesPosted_;
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
  if (const uint8_t* bounce = bouncePlace(index)) std::memcpy(requests().front().data, bounce, bytes);
  releaseView(index);
  requests().finishFront(bytes);
}

Status RecvComm::tookWrite(const ibv_wc& completion) {
  const size_t bytes = ntohl(completion.imm_data);
  if (completion.opcode != IBV_WC_RECV_RDMA_WITH_IMM || bytes > requests().front().bytes)
    return brokeRules(fmt::format("{} bytes for a receive of {}", bytes, requests().front().bytes));
  BPS_TRY(queue().receive(completion.wr_id, {}));
  finish(bytes);
  return {};
}

// Only the pieces after the end of a message are shorter than they could be.
Status RecvComm::tookPiece(const ibv_wc& completion) {
  const size_t room = requests().front().bytes;
  const size_t before = pieces_ * terms().pieceBytes;
  if (completion.opcode != IBV_WC_RECV || (completion.byte_len > 0 && got_ != before))
    return brokeRules(fmt::format("a piece of {} bytes after {}", completion.byte_len, got_));
  --placesPosted_;
  got_ += completion.byte_len;
  if (++pieces_ < piecesOf(room, terms().pieceBytes)) return {};
  const size_t bytes = got_;
  pieces_ = got_ = 0;
  finish(bytes);
  return {};
}

Status RecvComm::completed(const ibv_wc& completion) {
  if ((completion.opcode & IBV_WC_RECV) == 0) {
    --grantsInFlight_;
    return {};
  }
  if (requests().active() == granted_) return brokeRules("a message without a grant");
  return terms().write ? tookWrite(completion) : tookPiece(completion);
}

Status RecvComm::heard(const Notice& notice) {
  if (notice.kind != Notice::Kind::kTooLarge)
    return brokeRules(fmt::format("notice {}", static_cast<int>(notice.kind)));
  tooLarge_ = notice;
  return {};
}

// After the messages before it.
Status RecvComm::verdict() {
  if (!tooLarge_ || tooLarge_->number != requests().active() || requests().idle()) return {};
  return failure(Code::kInvalidUsage, "{} sent a message of {} bytes into a receive of {} bytes", peer(),
                 tooLarge_->bytes, requests().front().bytes);
}

}  // namespace bps::plugin::verbs
