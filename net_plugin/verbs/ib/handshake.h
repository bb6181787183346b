// QueueHandshake: both ends do the same. Each makes a queue pair and offers it over the socket; with the peer's offer
// it connects its own, posts its first receives and says that it is ready; when the peer has said so too, the
// connection stands.
#pragma once
#include "net_plugin/verbs/ib/queue_comm.h"

namespace bps::plugin::verbs {

class QueueHandshake final : public Device::Handshake {
 public:
  static Result<std::unique_ptr<Device::Handshake>> begin(OpenDevice& device, UniqueFd socket, Device::Role role,
                                                          const Sign* listener, Deadline deadline);

  Result<std::unique_ptr<Comm>> step() override;

 private:
  enum class State { kAwaitingOffer, kAwaitingReady };

  QueueHandshake(OpenDevice& device, Lifeline lifeline, Device::Role role, Deadline deadline)
      : device_(device), lifeline_(std::move(lifeline)), role_(role), deadline_(deadline) {}

  Status accept(const Offer& peer);
  Result<Progress> advance();
  Result<Progress> hear(std::span<uint8_t> message);

  OpenDevice& device_;
  Lifeline lifeline_;
  Device::Role role_;
  Deadline deadline_;
  State state_ = State::kAwaitingOffer;
  std::unique_ptr<QueuePair> queue_;
  std::unique_ptr<QueueComm> comm_;
  OfferBytes offer_{};
  NoticeBytes notice_{};
};

}  // namespace bps::plugin::verbs
