// SendComm: the sending end of a connection through shared memory. Posting only queues; the next test() or arm() copies
// into the ring what finds room there.
#pragma once
#include "net_plugin/shm/memory_comm.h"

namespace bps::plugin::shm {

class SendComm final : public MemoryComm {
 public:
  SendComm(Segment segment, UniqueFd lifeline)
      : MemoryComm(std::move(segment), std::move(lifeline), RingEnd::Side::kWriter) {}

 protected:
  Status move() override;
  Status finishAlone() override { return peerClosed(); }
  size_t wanted() override;

 private:
  bool inMessage_ = false;  // the front message's frame is in the ring
  size_t sent_ = 0;         // of the front message
};

}  // namespace bps::plugin::shm
