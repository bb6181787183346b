// RingEnd: the writing or the reading end of a ring of bytes in memory that two processes share.
//
// Bytes are numbered on from 0; byte p lies at p modulo the capacity. An end keeps its own position to itself and
// publishes it; of the other end it knows what that published. What the other end published is checked at every use,
// and no offset is ever made from it, so whatever it writes, nothing outside the ring is touched.
//
// Memory ordering: a position is stored (release) after the bytes it speaks of were copied, and loaded (acquire) before
// they are. Who wants to sleep exchanges its wish and then loads the other's position; who publishes stores its
// position and then reads the wish by a read-modify-write. Of these two operations on the wish one comes second: if it
// is the publisher's, it finds the wish; if it is the sleeper's, it synchronises with the publisher's and so sees the
// position. No wake-up is lost, and the position itself needs no fence, which would delay it.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/base/status.h"

namespace bps::plugin::shm {

// At the start of the shared memory, all zero at first. Each number has a cache line of its own: the positions change
// all the time, the wishes only around a sleep.
struct RingHeader {
  alignas(64) std::atomic<uint64_t> written{0};     // bytes below it can be read
  alignas(64) std::atomic<uint64_t> read{0};        // bytes below it can be overwritten
  alignas(64) std::atomic<uint64_t> wakeReader{0};  // the reader sleeps until `written` is there; 0: it does not sleep
  alignas(64) std::atomic<uint64_t> wakeWriter{0};  // the writer sleeps until `read` is there; 0: it does not sleep
};

struct RingMemory {
  RingHeader* header = nullptr;
  uint8_t* data = nullptr;
  size_t capacity = 0;  // a power of two
};

class RingEnd {
 public:
  enum class Side { kWriter, kReader };

  RingEnd(const RingMemory& memory, Side side);

  // Bytes that can be written or read now. Looks at the other end only when it does not know of `enough` yet. Fails
  // when the other end's position cannot be.
  Result<size_t> available(size_t enough);
  // At most left() bytes; the other end knows of it after publish().
  void write(const uint8_t* data, size_t bytes);
  void read(uint8_t* data, size_t bytes);
  size_t unpublished() const { return static_cast<size_t>(position_ - published_); }
  // True: the other end slept until this, and is to be woken.
  [[nodiscard]] bool publish();

  // Asks to be woken as soon as `wanted` bytes (at most the capacity) are left. True: they are already.
  Result<bool> requestWake(size_t wantedBytes);
  // Takes back what sleepFor() asked for. False: too late, the other end wakes us.
  bool cancelWakeRequest();

  size_t capacity() const { return memory_.capacity; }
  uint64_t position() const { return position_; }

 private:
  size_t knownAvailable() const { return static_cast<size_t>(seenPeerPosition_ + maxLead_ - position_); }

  RingMemory memory_;
  uint64_t maxLead_;  // how far this end may be ahead of the other
  std::atomic<uint64_t>& ownPosition_;
  std::atomic<uint64_t>& peerPosition_;
  std::atomic<uint64_t>& ownWakeRequest_;
  std::atomic<uint64_t>& peerWakeRequest_;
  uint64_t position_ = 0;
  uint64_t published_ = 0;
  uint64_t seenPeerPosition_ = 0;  // of the other end
  bool wakeRequested_ = false;
};

}  // namespace bps::plugin::shm
