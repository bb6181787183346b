// RingEnd: the writing or the reading end of a byte ring in memory that two processes share. A
// RingEnd is used by one thread.
//
// The bytes of the stream are numbered from 0, and byte p is stored at offset p modulo the
// capacity. Each end has a private position, which it publishes in the shared memory. An end checks
// the peer's published position at every use and computes no offset from it. A faulty or malicious
// peer therefore cannot cause an access outside the ring.
//
// Memory ordering: an end copies bytes and then stores its position (release). The peer loads this
// position (acquire) and then copies bytes.
//
// An end that wants to sleep writes its wake request by an atomic exchange and then loads the
// peer's position. An end that publishes stores its position and then reads the peer's wake request
// by an atomic read-modify-write. One of these two operations on the wake request comes second. If
// the operation of the publisher is second, the publisher finds the request. If the operation of
// the sleeper is second, it synchronizes with the operation of the publisher, so the sleeper sees
// the position. Therefore no wake-up is lost, and the store of the position needs no fence.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "src/base/status.h"

namespace bps::plugin::shm {

// The header at the start of the shared memory, initially zero. Each field has its own cache line,
// because the positions change often, but the wake requests change only around a sleep.
struct RingHeader {
  alignas(64) std::atomic<uint64_t> written{0};     // bytes before this position can be read
  alignas(64) std::atomic<uint64_t> read{0};        // bytes before this position can be overwritten
  alignas(64) std::atomic<uint64_t> wakeReader{0};  // value of `written` at which to wake the reader; 0 for never
  alignas(64) std::atomic<uint64_t> wakeWriter{0};  // value of `read` at which to wake the writer; 0 for never
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

  // Returns the number of bytes that can be written or read now. Loads the peer's position only if
  // this end knows of fewer than `enough` available bytes. Fails if the peer's position is invalid.
  Result<size_t> available(size_t enough);
  // write() and read() may copy at most available() bytes. The peer sees the new position only
  // after publish().
  void write(const uint8_t* data, size_t bytes);
  void read(uint8_t* data, size_t bytes);
  size_t unpublished() const { return static_cast<size_t>(position_ - published_); }
  // Makes the position of this end visible to the peer. Returns true if the peer sleeps and waits
  // for this position. The caller must then wake the peer.
  [[nodiscard]] bool publish();

  // Asks the peer for a wake-up when `wantedBytes` bytes (at most the capacity) are available.
  // Returns true if that many bytes are available already.
  Result<bool> requestWake(size_t wantedBytes);
  // Cancels the wake request. Returns false if the peer has already taken the request and sends a
  // wake-up.
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
