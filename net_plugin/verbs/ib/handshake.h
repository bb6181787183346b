// QueueHandshake: establishes a verbs connection over a socket. A QueueHandshake is used by one
// thread at a time.
//
// Both ends follow the same steps. Each end creates a queue pair and sends the queue pair info over
// the socket. When an end has received the info of the peer, it connects its queue pair, posts its
// first receives and sends a ready notice. For each end, the connection is established when the end
// has received the ready notice of the peer.
#pragma once
#include "net_plugin/verbs/ib/queue_comm.h"

namespace bps::plugin::verbs {

class QueueHandshake final : public RdmaDevice::Handshake {
 public:
  static Result<std::unique_ptr<RdmaDevice::Handshake>> begin(IbvDevice& device, UniqueFd socket, RdmaDevice::Role role,
                                                              const VerbsExtension* listener, Deadline deadline);

  Result<std::unique_ptr<Comm>> step() override;

 private:
  enum class State { kAwaitingInfo, kAwaitingReady };

  QueueHandshake(IbvDevice& device, LivenessSocket livenessSocket, RdmaDevice::Role role, Deadline deadline)
      : device_(device), livenessSocket_(std::move(livenessSocket)), role_(role), deadline_(deadline) {}

  Status accept(const QueuePairInfo& peer);
  Result<Progress> advance();
  Result<Progress> receiveMessage(std::span<uint8_t> message);

  IbvDevice& device_;
  LivenessSocket livenessSocket_;
  RdmaDevice::Role role_;
  Deadline deadline_;
  State state_ = State::kAwaitingInfo;
  std::unique_ptr<QueuePair> queue_;
  std::unique_ptr<QueueComm> comm_;
  QueuePairInfoBytes peerInfo_{};
  NoticeBytes notice_{};
};

}  // namespace bps::plugin::verbs
