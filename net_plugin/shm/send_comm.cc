#include "net_plugin/shm/send_comm.h"

#include <algorithm>

namespace bps::plugin::shm {

size_t SendComm::wantedBytes() {
  const size_t rest = requests().front().bytes - sent_;
  return std::min(rest + (messageStarted_ ? 0 : sizeof(Frame)), kWakeBytes);
}

Status SendComm::move() {
  setHasMoreToMove(false);
  for (size_t moved = 0; !requests().idle();) {
    Request& front = requests().front();
    if (!messageStarted_) {
      if (BPS_TRY(ring().available(sizeof(Frame))) < sizeof(Frame)) break;
      const Frame frame{.bytes = static_cast<uint32_t>(front.bytes),
                        .number = static_cast<uint16_t>(requests().active())};
      ring().write(reinterpret_cast<const uint8_t*>(&frame), sizeof frame);
      messageStarted_ = true;
    }
    const size_t most = std::min(front.bytes - sent_, kCopyBytes);
    const size_t part = std::min(BPS_TRY(ring().available(most)), most);
    ring().write(front.data + sent_, part);
    sent_ += part;
    moved += part;
    if (sent_ == front.bytes) {
      requests().finishFront(sent_);
      messageStarted_ = false;
      sent_ = 0;
    } else if (part == 0) {
      break;
    }
    if (shouldPauseAfter(moved)) break;
  }
  publish();
  return {};
}

}  // namespace bps::plugin::shm
