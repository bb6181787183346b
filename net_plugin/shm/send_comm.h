// SendComm: the sending end of a connection through shared memory. Posting only queues; the next test() or arm() copies
// into the ring what finds room there.
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
  bool messageStarted_ = false;  // the front message's frame is in the ring
  size_t sent_ = 0;              // of the front message
};

}  // namespace bps::plugin::shm
