// RecvComm: the receiving end of a shared memory connection. test() and arm() copy data from the
// ring into the buffers of posted receives.
#pragma once
#include "net_plugin/shm/shm_comm.h"

namespace bps::plugin::shm {

class RecvComm final : public ShmComm {
 public:
  RecvComm(Segment segment, UniqueFd livenessSocket)
      : ShmComm(std::move(segment), std::move(livenessSocket), RingEnd::Side::kReader) {}

 protected:
  Status move() override;
  Status moveAfterHangup() override;
  size_t wantedBytes() override;

 private:
  Status takeFrame();

  bool messageStarted_ = false;  // the frame of the front message has been read
  size_t messageBytes_ = 0, messageReceived_ = 0;
};

}  // namespace bps::plugin::shm
