// RecvComm: the receiving end of a connection through shared memory: copies out of the ring into the posted receives.
#pragma once
#include "net_plugin/shm/memory_comm.h"

namespace bps::plugin::shm {

class RecvComm final : public MemoryComm {
 public:
  RecvComm(Segment segment, UniqueFd lifeline)
      : MemoryComm(std::move(segment), std::move(lifeline), RingEnd::Side::kReader) {}

 protected:
  Status move() override;
  Status finishAlone() override;
  size_t wanted() override;

 private:
  Status takeFrame();

  bool inMessage_ = false;  // the front message's frame has been taken, so its size is known
  size_t messageBytes_ = 0, messageGot_ = 0;
};

}  // namespace bps::plugin::shm
