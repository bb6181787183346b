// RingEnd: the writing or the reading end of a byte ring in memory that two processes share. Used by one thread.
//
// The bytes of the stream are numbered from 0; byte p is stored at offset p modulo the capacity. Each end has a private
// position, which it publishes. It checks the peer's published position at every use and never computes an offset from
// it, so a faulty or malicious peer cannot cause an access outside the ring.
//
// Memory ordering: an end copies bytes and then stores its position (release). The peer loads the position (acquire)
// and then copies. An end that wants to sleep exchanges its wake request and then loads the peer's position; an end
// that publishes stores its position and then reads the peer's wake request by a read-modify-write. One of these two
// operations on the wake request comes second. If it is the publisher's, it finds the request. If it is the sleeper's,
// it synchronizes with the publisher's, so the sleeper sees the position. Therefore no wake-up is lost, and storing the
// position needs no fence.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/base/status.h"

namespace bps::plugin::shm {

// Stands at the start of the shared memory, initially zero. Each field has its own cache line, because the positions
// change often and the wake requests only around a sleep.
struct RingHeader {
  alignas(64) std::atomic<uint64_t> written{0};     // bytes before this position can be read
  alignas(64) std::atomic<uint64_t> read{0};        // bytes before this position can be overwritten
  alignas(64) std::atomic<uint64_t> wakeReader{0};  // wake the reader when `written` reaches this; 0: it does not sleep
  alignas(64) std::atomic<uint64_t> wakeWriter{0};  // wake the writer when `read` reaches this; 0: it does not sleep
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

  // Returns the number of bytes that can be written or read now. Loads the peer's position only if fewer than `enough`
  // bytes are known to be available. Fails if the peer's position is invalid.
  Result<size_t> available(size_t enough);
  // Copy at most available() bytes. The peer sees the new position after publish().
  void write(const uint8_t* data, size_t bytes);
  void read(uint8_t* data, size_t bytes);
  size_t unpublished() const { return static_cast<size_t>(position_ - published_); }
  // Makes the own position visible to the peer. Returns true if the peer sleeps until this position; then the caller
  // must wake it.
  [[nodiscard]] bool publish();

  // Requests a wake-up for the time when `wantedBytes` (at most the capacity) are available. Returns true if they
  // already are.
  Result<bool> requestWake(size_t wantedBytes);
  // Cancels the request. Returns false if the peer has already taken it and sends a wake-up.
  bool cancelWakeRequest();

  size_t capacity() const { return memory_.capacity; }
  uint64_t position() const { return position_; }

 private:
  size_t knownAvailable() const { return static_cast<size_t>(seenPeerPosition_ + maxLead_ - position_); }

  RingMemory memory_;
  uint64_t maxLead_;  // bytes by which this end's position may exceed the peer's
  std::atomic<uint64_t>& ownPosition_;
  std::atomic<uint64_t>& peerPosition_;
  std::atomic<uint64_t>& ownWakeRequest_;
  std::atomic<uint64_t>& peerWakeRequest_;
  uint64_t position_ = 0;
  uint64_t published_ = 0;
  uint64_t seenPeerPosition_ = 0;
  bool wakeRequested_ = false;
};

}  // namespace bps::plugin::shm
