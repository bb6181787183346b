#include "net_plugin/shm/ring.h"

#include <algorithm>
#include <cstring>

#include "src/base/format.h"

namespace bps::plugin::shm {

static_assert(std::atomic<uint64_t>::is_always_lock_free, "atomics in memory shared by processes must not need a lock");

RingEnd::RingEnd(const RingMemory& memory, Side side)
    : memory_(memory),
      maxLead_(side == Side::kWriter ? memory.capacity : 0),
      ownPosition_(side == Side::kWriter ? memory.header->written : memory.header->read),
      peerPosition_(side == Side::kWriter ? memory.header->read : memory.header->written),
      ownWakeRequest_(side == Side::kWriter ? memory.header->wakeWriter : memory.header->wakeReader),
      peerWakeRequest_(side == Side::kWriter ? memory.header->wakeReader : memory.header->wakeWriter) {}

Result<size_t> RingEnd::available(size_t enough) {
  if (knownAvailable() >= enough) return knownAvailable();
  const uint64_t peerPosition = peerPosition_.load(std::memory_order_acquire);
  if (peerPosition + maxLead_ - position_ > memory_.capacity)
    return failure(Code::kRemote, "the ring is corrupt: the peer is at byte {}, this end at {}, the ring has {} bytes",
                   peerPosition, position_, memory_.capacity);
  seenPeerPosition_ = peerPosition;
  return knownAvailable();
}

void RingEnd::write(const uint8_t* data, size_t bytes) {
  const size_t at = static_cast<size_t>(position_) & (memory_.capacity - 1);
  const size_t first = std::min(bytes, memory_.capacity - at);
  if (first > 0) std::memcpy(memory_.data + at, data, first);
  if (bytes > first) std::memcpy(memory_.data, data + first, bytes - first);
  position_ += bytes;
}

void RingEnd::read(uint8_t* data, size_t bytes) {
  const size_t at = static_cast<size_t>(position_) & (memory_.capacity - 1);
  const size_t first = std::min(bytes, memory_.capacity - at);
  if (first > 0) std::memcpy(data, memory_.data + at, first);
  if (bytes > first) std::memcpy(data + first, memory_.data, bytes - first);
  position_ += bytes;
}

bool RingEnd::publish() {
  if (published_ == position_) return false;
  published_ = position_;
  ownPosition_.store(position_, std::memory_order_release);
  uint64_t wakeAt = peerWakeRequest_.fetch_add(0, std::memory_order_acq_rel);
  // If the exchange fails, the peer has changed its wake request. The peer has then seen the new
  // position and needs no wake-up.
  return wakeAt != 0 && position_ >= wakeAt &&
         peerWakeRequest_.compare_exchange_strong(wakeAt, 0, std::memory_order_acq_rel);
}

Result<bool> RingEnd::requestWake(size_t wantedBytes) {
  if (BPS_TRY(available(wantedBytes)) >= wantedBytes) return true;
  wakeRequested_ = true;
  // The stored value is never 0, which would mean "no request", because the peer has not reached
  // this position yet.
  ownWakeRequest_.exchange(position_ + wantedBytes - maxLead_, std::memory_order_acq_rel);
  return BPS_TRY(available(wantedBytes)) >= wantedBytes;
}

bool RingEnd::cancelWakeRequest() {
  if (!wakeRequested_) return true;
  wakeRequested_ = false;
  return ownWakeRequest_.exchange(0, std::memory_order_acq_rel) != 0;
}

}  // namespace bps::plugin::shm
