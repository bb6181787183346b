// ShmComm: what the sending and the receiving end of a connection through shared memory have in common: the ring,
// the lifeline, and their sleep.
#pragma once
#include "net_plugin/comm.h"
#include "net_plugin/hangup_check.h"
#include "net_plugin/shm/liveness_socket.h"
#include "net_plugin/shm/segment.h"

namespace bps::plugin::shm {

// Before every message in the ring: the ring is a stream, and this is where a torn one is noticed.
struct Frame {
  static constexpr uint16_t kMagic = 0x6d62;  // "bm"
  uint32_t bytes = 0;
  uint16_t magic = kMagic;
  uint16_t number = 0;  // of the message, its low bits
};
static_assert(sizeof(Frame) == 8);

class ShmComm : public Comm {
 public:
  ShmComm(Segment segment, UniqueFd livenessSocket, RingEnd::Side side);

  Result<int> waitFd() final { return livenessSocket_.waitFd(); }
  Result<bool> arm() final;
  const std::string& peer() const { return livenessSocket_.peer(); }

 protected:
  // Most bytes that one progress() moves, so that one busy connection does not starve the others of its thread.
  static constexpr size_t kMaxBytesPerCall = size_t{1} << 20;
  // What the ends copy at a time in a large message, one behind the other.
  static constexpr size_t kCopyBytes = size_t{64} << 10;
  // Inside a large message a sleep ends when this much can be moved.
  static constexpr size_t kWakeBytes = Segment::kRingBytes / 2;

  Status progress() final;
  // Moves what can be moved between the messages and the ring.
  virtual Status move() = 0;
  // The same, knowing that the other end will move nothing any more.
  virtual Status moveAfterHangup() = 0;
  // What the front message waits for in the ring, at most kWakeBytes. Called when move() has stopped for that.
  virtual size_t wantedBytes() = 0;

  RingEnd& ring() { return ring_; }
  void publish();
  // After each piece: lets the other end begin with what is there. True: move() has moved enough for one call.
  bool shouldPauseAfter(size_t moved);
  // move() stopped at kMostPerCall and not because the ring was full or empty.
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
  bool wakeupPending_ = false;  // the other end has rung, or is about to, and the bell has not been taken
  bool peerHungUp_ = false;     // the other end has hung up
};

}  // namespace bps::plugin::shm
