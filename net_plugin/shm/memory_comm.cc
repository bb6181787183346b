#include "net_plugin/shm/memory_comm.h"

#include <ctime>

#include "src/base/format.h"

namespace bps::plugin::shm {
namespace {

// A polling caller looks for a hang-up so often, by the cheapest clock.
constexpr int64_t kLookEveryMs = 50;
// A sleeping caller looks at every so manieth sleep: a hang-up ends sleeps at once, so it is found after as many short
// rounds, and the many idle connections of a thread cost its sleeps almost nothing.
constexpr unsigned kArmsPerLook = 16;

int64_t coarseNowMs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
}

}  // namespace

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

bool MemoryComm::lookIsDue() {
  const int64_t now = coarseNowMs();
  if (now - lookedAtMs_ < kLookEveryMs) return false;
  lookedAtMs_ = now;
  return true;
}

// Not to be called while the ring has our wish to be woken: it might take the bell of the sleep that follows.
void MemoryComm::look() {
  const Lifeline::Heard heard = lifeline_.listen();
  if (heard == Lifeline::Heard::kBell) bellComes_ = false;
  if (heard == Lifeline::Heard::kHangup) gone_ = true;
}

Status MemoryComm::progress() {
  if (!ring_.wake()) bellComes_ = true;
  if (!gone_ && lookIsDue()) look();
  // What the other end published before it hung up is seen now at the latest.
  return gone_ ? finishAlone() : move();
}

Result<bool> MemoryComm::arm() {
  if (firstFailure().ok()) note(progress());
  if (bellComes_ || ++arms_ % kArmsPerLook == 0) {
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
