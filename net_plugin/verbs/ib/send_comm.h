// SendComm: the sending end of a verbs connection. A message is posted to the device when its grant is there, and done
// when the device has been told by the other one that it arrived, or when the peer says so as it closes.
#pragma once
#include "net_plugin/verbs/ib/queue_comm.h"

namespace bps::plugin::verbs {

class SendComm final : public QueueComm {
 public:
  static constexpr uint32_t kDepth = 256;
  using QueueComm::QueueComm;

  Status start() override;

 protected:
  Status onCompletion(const ibv_wc& completion) override;
  Status postMore() override;
  Status onNotice(const Notice& notice) override;
  Status applyNotices() override;
  int access() const override { return 0; }  // the device only reads

 private:
  Status takeGrant(const ibv_wc& completion);
  Result<bool> postMessage();
  Status postPiece(const Request& request, const Grant& grant, size_t pieces);
  Status tooLarge(const Request& request, const Grant& grant);
  void finishUpTo(uint64_t index);

  std::array<Grant, kGrants> granted_{};
  uint64_t grantsEnd_ = 0;  // messages below it have a grant
  uint64_t next_ = 0;       // messages below it are posted
  size_t piece_ = 0;        // of the next message: pieces below it are posted
  DeviceBuffer buffer_;     // of the next message, once a piece of it is posted
  uint32_t inFlight_ = 0;
  uint64_t received_ = 0;  // messages below it are, says the peer
};

}  // namespace bps::plugin::verbs
