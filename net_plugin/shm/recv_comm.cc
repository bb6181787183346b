#include "net_plugin/shm/recv_comm.h"

#include <algorithm>

#include "src/base/format.h"

namespace bps::plugin::shm {

size_t RecvComm::wantedBytes() {
  return messageStarted_ ? std::min(messageBytes_ - messageReceived_, kWakeBytes) : sizeof(Frame);
}

Status RecvComm::takeFrame() {
  Frame frame;
  ring().read(reinterpret_cast<uint8_t*>(&frame), sizeof frame);
  if (frame.magic != Frame::kMagic || frame.number != static_cast<uint16_t>(requests().active()))
    return failure(Code::kRemote, "from {}: the stream is corrupt: expected the header of message {}", peer(),
                   requests().active());
  const size_t room = requests().front().bytes;
  if (frame.bytes > room)
    return failure(Code::kInvalidUsage, "{} sent a message of {} bytes into a receive of {} bytes", peer(), frame.bytes,
                   room);
  messageBytes_ = frame.bytes;
  messageReceived_ = 0;
  messageStarted_ = true;
  return {};
}

Status RecvComm::move() {
  setHasMoreToMove(false);
  for (size_t moved = 0; !requests().idle();) {
    if (!messageStarted_) {
      if (BPS_TRY(ring().available(sizeof(Frame))) < sizeof(Frame)) break;
      BPS_TRY(takeFrame());
    }
    const size_t most = std::min(messageBytes_ - messageReceived_, kCopyBytes);
    const size_t part = std::min(BPS_TRY(ring().available(most)), most);
    ring().read(requests().front().data + messageReceived_, part);
    messageReceived_ += part;
    moved += part;
    if (messageReceived_ == messageBytes_) {
      requests().finishFront(messageBytes_);
      messageStarted_ = false;
    } else if (part == 0) {
      break;
    }
    if (shouldPauseAfter(moved)) break;
  }
  publish();
  return {};
}

Status RecvComm::moveAfterHangup() {
  const uint64_t before = ring().position();
  BPS_TRY(move());
  if (requests().idle() || ring().position() != before) return {};
  if (!messageStarted_) return peerClosed();
  return peerClosed().within(fmt::format("in the middle of message {}", requests().active()));
}

}  // namespace bps::plugin::shm
