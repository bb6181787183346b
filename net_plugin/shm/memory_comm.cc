#include "net_plugin/shm/memory_comm.h"

#include "src/base/format.h"

namespace bps::plugin::shm {

MemoryComm::MemoryComm(Segment segment, UniqueFd lifeline, RingEnd::Side side)
    : segment_(std::move(segment)), lifeline_(std::move(lifeline)), ring_(segment_.ring(), side) {}

bool MemoryComm::pauseAfter(size_t moved) {
  if (ring_.unpublished() >= kPieceBytes) publish();
  if (moved < kMostPerCall) return false;
  setMore(!requests().idle());
  return true;
}

Status MemoryComm::peerClosed() const { return failure(Code::kRemote, "{} closed the connection", peer()); }

void MemoryComm::publish() {
  if (ring_.publish()) lifeline_.ring();
}

// Not to be called while the ring has our wish to be woken: it might take the bell of the sleep that follows.
void MemoryComm::look() {
  const Lifeline::Heard heard = lifeline_.listen();
  if (heard == Lifeline::Heard::kBell) bellComes_ = false;
  if (heard == Lifeline::Heard::kHangup) gone_ = true;
}

Status MemoryComm::progress() {
  if (!ring_.wake()) bellComes_ = true;
  if (!gone_ && pace_.isDue()) look();
  // What the other end published before it hung up is seen now at the latest.
  return gone_ ? finishAlone() : move();
}

Result<bool> MemoryComm::arm() {
  if (firstFailure().ok()) note(progress());
  if (pace_.isDueBeforeSleep() || bellComes_) {
    look();
    if (gone_ && firstFailure().ok()) note(progress());
  }
  if (requests().hasDone() || more_) return true;
  if (!firstFailure().ok()) {
    if (!requests().idle()) return true;  // test() tells
    return firstFailure().clone();
  }
  return requests().idle() ? sleepIdle() : sleepWaiting();
}

// With nothing posted only the end of the connection is of interest, and no call but this one can report it. Bytes that
// wait for a receive come first.
Result<bool> MemoryComm::sleepIdle() {
  if (gone_ && BPS_TRY(ring_.left(1)) == 0) {
    note(peerClosed());
    return firstFailure().clone();
  }
  BPS_TRY(lifeline_.watch(!gone_));
  return false;
}

Result<bool> MemoryComm::sleepWaiting() {
  BPS_TRY(lifeline_.watch(true));
  return ring_.sleepFor(wanted());
}

}  // namespace bps::plugin::shm
