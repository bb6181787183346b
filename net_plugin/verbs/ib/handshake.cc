#include "net_plugin/verbs/ib/handshake.h"

#include <algorithm>

#include "net_plugin/log.h"
#include "net_plugin/verbs/ib/recv_comm.h"
#include "net_plugin/verbs/ib/send_comm.h"
#include "src/base/format.h"

namespace bps::plugin::verbs {
namespace {

QueuePair::Depths depthsOf(const IbvDevice& device, RdmaDevice::Role role) {
  if (role == RdmaDevice::Role::kSender) return {.sends = SendComm::kDepth, .receives = QueueComm::kGrants};
  const size_t pieces = QueueComm::piecesOf(kMaxMessageBytes, device.limits().pieceBytes);
  return {.sends = QueueComm::kGrants, .receives = static_cast<uint32_t>(QueueComm::kGrants + pieces)};
}

const char* linkName(LinkLayer link) { return link == LinkLayer::kEthernet ? "Ethernet" : "InfiniBand"; }

}  // namespace

Result<std::unique_ptr<RdmaDevice::Handshake>> QueueHandshake::begin(IbvDevice& device, UniqueFd socket,
                                                                     RdmaDevice::Role role,
                                                                     const VerbsExtension* listener,
                                                                     Deadline deadline) {
  Gid gid = device.gid();
  const bool choose = listener != nullptr && listener->link == LinkLayer::kEthernet && device.options().gidIndex < 0;
  if (choose) gid = BPS_TRY(chooseGid(device.port(), device.options().gidIndex, &listener->gid));
  std::unique_ptr<QueueHandshake> made(new QueueHandshake(device, LivenessSocket(std::move(socket)), role, deadline));
  made->queue_ = BPS_TRY(QueuePair::create(device, gid, depthsOf(device, role)));
  BPS_TRY(made->livenessSocket_.sendMessage(encodeQueuePairInfo(made->queue_->info())));
  return std::unique_ptr<RdmaDevice::Handshake>(std::move(made));
}

Result<Progress> QueueHandshake::receiveMessage(std::span<uint8_t> message) {
  const LivenessSocket::Event event = livenessSocket_.receiveMessage(message);
  if (event == LivenessSocket::Event::kMessage) return Progress::kDone;
  if (event == LivenessSocket::Event::kHangup) return failure(Code::kRemote, "{} hung up", livenessSocket_.peer());
  if (deadline_.passed()) return failure(Code::kRemote, "{} did not answer in time", livenessSocket_.peer());
  return Progress::kPending;
}

Status QueueHandshake::accept(const QueuePairInfo& peer) {
  const QueuePairInfo own = queue_->info();
  if (peer.link != own.link)
    return failure(Code::kRemote, "the link layers differ: {} has {}, {} has {}", livenessSocket_.peer(),
                   linkName(peer.link), device_.port().name(), linkName(own.link));
  const QueueComm::ConnectionParams params{.pieceBytes = std::min(own.pieceBytes, peer.pieceBytes),
                                           .write = own.write && peer.write};
  const bool sends = role_ == RdmaDevice::Role::kSender;
  BPS_TRY(queue_->connect(peer, params.write && !sends ? IBV_ACCESS_REMOTE_WRITE : 0));
  logInfo("{} {}: {} GID {}, peer's GID {}, by {}, at most {} bytes per request", sends ? "to" : "from",
          livenessSocket_.peer(), device_.port().name(), gidText(own.gid), gidText(peer.gid),
          params.write ? "WRITE with immediate" : "SEND", params.pieceBytes);
  if (sends) comm_ = std::make_unique<SendComm>(device_, std::move(queue_), params);
  else comm_ = std::make_unique<RecvComm>(device_, std::move(queue_), params);
  BPS_TRY(comm_->start());
  return livenessSocket_.sendMessage(encodeNotice({Notice::Kind::kReady, 0, 0}));
}

Result<Progress> QueueHandshake::advance() {
  if (state_ == State::kAwaitingInfo) {
    if (BPS_TRY(receiveMessage(peerInfo_)) == Progress::kPending) return Progress::kPending;
    const QueuePairInfo peer = BPS_TRY(parseQueuePairInfo(peerInfo_));
    BPS_TRY(accept(peer));
    state_ = State::kAwaitingReady;
  }
  if (BPS_TRY(receiveMessage(notice_)) == Progress::kPending) return Progress::kPending;
  const Notice notice = BPS_TRY(parseNotice(notice_));
  if (notice.kind != Notice::Kind::kReady) return Status(Code::kRemote, "the peer sent a notice before it was ready");
  return Progress::kDone;
}

Result<std::unique_ptr<Comm>> QueueHandshake::step() {
  if (BPS_TRY(advance()) == Progress::kPending) return std::unique_ptr<Comm>();
  comm_->activate(std::move(livenessSocket_));
  return std::unique_ptr<Comm>(std::move(comm_));
}

}  // namespace bps::plugin::verbs
