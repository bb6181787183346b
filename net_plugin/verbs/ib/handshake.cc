#include "net_plugin/verbs/ib/handshake.h"

#include <algorithm>

#include "net_plugin/log.h"
#include "net_plugin/verbs/ib/recv_comm.h"
#include "net_plugin/verbs/ib/send_comm.h"
#include "src/base/format.h"

namespace bps::plugin::verbs {
namespace {

QueuePair::Depths depthsOf(const OpenDevice& device, Device::Role role) {
  if (role == Device::Role::kSender) return {.sends = SendComm::kDepth, .receives = QueueComm::kGrants};
  const size_t pieces = QueueComm::piecesOf(kMaxMessageBytes, device.limits().pieceBytes);
  return {.sends = QueueComm::kGrants, .receives = static_cast<uint32_t>(QueueComm::kGrants + pieces)};
}

const char* linkName(LinkLayer link) { return link == LinkLayer::kEthernet ? "Ethernet" : "InfiniBand"; }

}  // namespace

Result<std::unique_ptr<Device::Handshake>> QueueHandshake::begin(OpenDevice& device, UniqueFd socket, Device::Role role,
                                                                 const Sign* listener, Deadline deadline) {
  Gid gid = device.gid();
  const bool choose = listener != nullptr && listener->link == LinkLayer::kEthernet && device.settings().gidIndex < 0;
  if (choose) gid = BPS_TRY(chooseGid(device.port(), device.settings().gidIndex, &listener->gid));
  std::unique_ptr<QueueHandshake> made(new QueueHandshake(device, Lifeline(std::move(socket)), role, deadline));
  made->queue_ = BPS_TRY(QueuePair::create(device, gid, depthsOf(device, role)));
  BPS_TRY(made->lifeline_.say(encodeOffer(made->queue_->offer())));
  return std::unique_ptr<Device::Handshake>(std::move(made));
}

Result<Progress> QueueHandshake::hear(std::span<uint8_t> message) {
  const Lifeline::Heard heard = lifeline_.hear(message);
  if (heard == Lifeline::Heard::kMessage) return Progress::kDone;
  if (heard == Lifeline::Heard::kHangup) return failure(Code::kRemote, "{} hung up", lifeline_.peer());
  if (deadline_.passed()) return failure(Code::kRemote, "{} did not answer in time", lifeline_.peer());
  return Progress::kPending;
}

Status QueueHandshake::accept(const Offer& peer) {
  const Offer own = queue_->offer();
  if (peer.link != own.link)
    return failure(Code::kRemote, "{} has {}, {} has {}", lifeline_.peer(), linkName(peer.link), device_.port().name(),
                   linkName(own.link));
  const QueueComm::Terms terms{.pieceBytes = std::min(own.pieceBytes, peer.pieceBytes),
                               .write = own.write && peer.write};
  const bool sends = role_ == Device::Role::kSender;
  BPS_TRY(queue_->connect(peer, terms.write && !sends ? IBV_ACCESS_REMOTE_WRITE : 0));
  logInfo("{} {}: {} GID {}, theirs {}, by {}, {} bytes at most in one request", sends ? "to" : "from",
          lifeline_.peer(), device_.port().name(), gidText(own.gid), gidText(peer.gid),
          terms.write ? "WRITE with immediate" : "SEND", terms.pieceBytes);
  if (sends) comm_ = std::make_unique<SendComm>(device_, std::move(queue_), terms);
  else comm_ = std::make_unique<RecvComm>(device_, std::move(queue_), terms);
  BPS_TRY(comm_->start());
  return lifeline_.say(encodeNotice({Notice::Kind::kReady, 0, 0}));
}

Result<Progress> QueueHandshake::advance() {
  if (state_ == State::kAwaitingOffer) {
    if (BPS_TRY(hear(offer_)) == Progress::kPending) return Progress::kPending;
    const Offer peer = BPS_TRY(parseOffer(offer_));
    BPS_TRY(accept(peer));
    state_ = State::kAwaitingReady;
  }
  if (BPS_TRY(hear(notice_)) == Progress::kPending) return Progress::kPending;
  const Notice notice = BPS_TRY(parseNotice(notice_));
  if (notice.kind != Notice::Kind::kReady) return Status(Code::kRemote, "the peer is not ready, and says more");
  return Progress::kDone;
}

Result<std::unique_ptr<Comm>> QueueHandshake::step() {
  if (BPS_TRY(advance()) == Progress::kPending) return std::unique_ptr<Comm>();
  comm_->begin(std::move(lifeline_));
  return std::unique_ptr<Comm>(std::move(comm_));
}

}  // namespace bps::plugin::verbs
