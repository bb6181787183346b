// ShmComm: the base class of both ends of a shared memory connection. It holds the ring and the
// liveness socket, and implements sleeping.
#pragma once
#include "net_plugin/comm.h"
#include "net_plugin/hangup_check.h"
#include "net_plugin/shm/liveness_socket.h"
#include "net_plugin/shm/segment.h"

namespace bps::plugin::shm {

// A frame precedes every message in the ring. A wrong magic or number shows that the stream is
// corrupt.
struct Frame {
  static constexpr uint16_t kMagic = 0x6d62;  // "bm"
  uint32_t bytes = 0;
  uint16_t magic = kMagic;
  uint16_t number = 0;  // lower 16 bits of the message's number
};
static_assert(sizeof(Frame) == 8);

class ShmComm : public Comm {
 public:
  ShmComm(Segment segment, UniqueFd livenessSocket, RingEnd::Side side);

  Result<int> waitFd() final { return livenessSocket_.waitFd(); }
  Result<bool> arm() final;
  const std::string& peer() const { return livenessSocket_.peer(); }

 protected:
  // The most bytes that one progress() moves. The limit prevents a busy connection from starving
  // other connections of the same thread.
  static constexpr size_t kMaxBytesPerCall = size_t{1} << 20;
  // After copying this many bytes of a large message, an end publishes its position, so that both
  // ends copy at the same time.
  static constexpr size_t kCopyBytes = size_t{64} << 10;
  // In the middle of a large message, a sleep ends when this many bytes can be moved.
  static constexpr size_t kWakeBytes = Segment::kRingBytes / 2;

  Status progress() final;
  // Copies between the posted messages and the ring, without blocking.
  virtual Status move() = 0;
  // Replaces move() after the peer has hung up.
  virtual Status moveAfterHangup() = 0;
  // Returns the number of bytes that the ring must have available before the front message can
  // continue, at most kWakeBytes. Called after move() has found fewer bytes.
  virtual size_t wantedBytes() = 0;

  RingEnd& ring() { return ring_; }
  void publish();
  // Called by move() after each copy. Publishes the position if enough bytes were copied. Returns
  // true if move() has moved kMaxBytesPerCall and must return.
  bool shouldPauseAfter(size_t moved);
  // Sets whether move() stopped because of kMaxBytesPerCall and not because the ring was full or
  // empty.
  void setHasMoreToMove(bool more) { hasMoreToMove_ = more; }
  Status peerClosed() const;

 private:
  void checkHangup();
  Result<bool> armIdle();
  Result<bool> armWaiting();

  Segment segment_;
  LivenessSocket livenessSocket_;
  RingEnd ring_;
  HangupCheck hangupCheck_;
  bool hasMoreToMove_ = false;
  bool wakeupPending_ = false;  // the peer has sent or will send a wake-up that is not consumed yet
  bool peerHungUp_ = false;
};

}  // namespace bps::plugin::shm
