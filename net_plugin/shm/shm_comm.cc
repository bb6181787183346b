#include "net_plugin/shm/shm_comm.h"

#include "src/base/format.h"

namespace bps::plugin::shm {

ShmComm::ShmComm(Segment segment, UniqueFd livenessSocket, RingEnd::Side side)
    : segment_(std::move(segment)), livenessSocket_(std::move(livenessSocket)), ring_(segment_.ring(), side) {}

bool ShmComm::shouldPauseAfter(size_t moved) {
  if (ring_.unpublished() >= kCopyBytes) publish();
  if (moved < kMaxBytesPerCall) return false;
  setHasMoreToMove(!requests().idle());
  return true;
}

Status ShmComm::peerClosed() const { return failure(Code::kRemote, "{} closed the connection", peer()); }

void ShmComm::publish() {
  if (ring_.publish()) livenessSocket_.sendWakeup();
}

// Do not call checkHangup() while a wake request is set, because it could consume the wake-up that
// ends the next sleep.
void ShmComm::checkHangup() {
  const LivenessSocket::Event event = livenessSocket_.receiveEvent();
  if (event == LivenessSocket::Event::kWakeup) wakeupPending_ = false;
  if (event == LivenessSocket::Event::kHangup) peerHungUp_ = true;
}

Status ShmComm::progress() {
  if (!ring_.cancelWakeRequest()) wakeupPending_ = true;
  if (!peerHungUp_ && hangupCheck_.isDue()) checkHangup();
  // After a hang-up, this end sees everything that the peer has published.
  return peerHungUp_ ? moveAfterHangup() : move();
}

Result<bool> ShmComm::arm() {
  if (firstFailure().ok()) keepFirstFailure(progress());
  if (hangupCheck_.isDueBeforeSleep() || wakeupPending_) {
    checkHangup();
    if (peerHungUp_ && firstFailure().ok()) keepFirstFailure(progress());
  }
  if (requests().hasDone() || hasMoreToMove_) return true;
  if (!firstFailure().ok()) {
    if (!requests().idle()) return true;  // test() reports the failure
    return firstFailure().clone();
  }
  return requests().idle() ? armIdle() : armWaiting();
}

// If no message is posted, only arm() can report the end of the connection. arm() reports the end
// only if the ring has no unread bytes.
Result<bool> ShmComm::armIdle() {
  if (peerHungUp_ && BPS_TRY(ring_.available(1)) == 0) {
    keepFirstFailure(peerClosed());
    return firstFailure().clone();
  }
  BPS_TRY(livenessSocket_.setWatched(!peerHungUp_));
  return false;
}

Result<bool> ShmComm::armWaiting() {
  BPS_TRY(livenessSocket_.setWatched(true));
  return ring_.requestWake(wantedBytes());
}

}  // namespace bps::plugin::shm
