// SendComm: the sending end of a shared memory connection. post() only queues a message. test() and
// arm() copy queued messages into the ring.
#pragma once
#include "net_plugin/shm/shm_comm.h"

namespace bps::plugin::shm {

class SendComm final : public ShmComm {
 public:
  SendComm(Segment segment, UniqueFd livenessSocket)
      : ShmComm(std::move(segment), std::move(livenessSocket), RingEnd::Side::kWriter) {}

 protected:
  Status move() override;
  Status moveAfterHangup() override { return peerClosed(); }
  size_t wantedBytes() override;

 private:
  bool messageStarted_ = false;  // the frame of the front message is in the ring
  size_t sent_ = 0;              // bytes of the front message that are in the ring
};

}  // namespace bps::plugin::shm
