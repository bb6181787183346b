// SendComm: the sending end of a verbs connection. It posts a message to the device as soon as it
// has the grant for the message. A message is done when the device reports its arrival, or when the
// peer's goodbye notice says that the peer has received the message.
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
  int access() const override { return 0; }  // the device only reads the memory

 private:
  Status takeGrant(const ibv_wc& completion);
  Result<bool> postMessage();
  Status postPiece(const Request& request, const Grant& grant, size_t pieces);
  Status tooLarge(const Request& request, const Grant& grant);
  void finishUpTo(uint64_t index);

  std::array<Grant, kGrants> granted_{};
  uint64_t grantsEnd_ = 0;  // messages before this number have a grant
  uint64_t next_ = 0;       // messages before this number are posted
  size_t piece_ = 0;        // pieces of message next_ before this number are posted
  DeviceBuffer buffer_;     // the buffer of message next_ if one of its pieces is posted
  uint32_t inFlight_ = 0;
  uint64_t received_ = 0;  // the peer's goodbye notice confirms all messages before this number
};

}  // namespace bps::plugin::verbs
