// Event: one stage that a call or a chunk has reached, with its time. A trace file contains the events of one rank, or
// of one job on a server.
#pragma once
#include <cstdint>

namespace bps::trace {

enum class Stage : uint8_t {
  // A call, on every rank.
  kSubmitted = 1,  // the program has issued the call
  kAdmitted = 2,   // the call's stream has reached the call, so its chunks may be sent
  kCopiedOut = 3,  // the contributions of a call in GPU memory are in host memory
  kComplete = 4,   // every sum is in the buffer of the program or in staging memory
  kFailed = 5,
  // A chunk, on the machine that contributes it. `peer` is the owner, or kExchangePath.
  kChunkAdmitted = 6,  // the chunk is queued for sending
  kPushed = 7,         // the transport has taken the contribution
  kReceived = 8,       // the sum has arrived
  kRetired = 9,        // the sum is in its place
  // A chunk, at its owner. On the exchange path, every machine sums each chunk.
  kArrived = 10,   // the contribution of machine `peer` has arrived
  kSumBegun = 11,  // all contributions have arrived
  kSummed = 12,
  kAnswered = 13,  // the transport has taken the answer to machine `peer`
};
inline constexpr uint8_t kMostStage = 13;

inline constexpr uint16_t kNoPeer = 0xffff, kExchangePath = 0xfffe;

// Owner, rail and sequence number identify a chunk: a chunk has the same number on the connections of all machines.
struct Event {
  uint64_t time = 0;  // nanoseconds of the steady clock of this process
  uint64_t call = 0;  // number of the call
  uint64_t bytes = 0;
  uint32_t sequence = 0;    // of the chunk on its connection, modulo 2^32
  uint16_t peer = kNoPeer;  // an endpoint
  Stage stage = Stage::kSubmitted;
  uint8_t rail = 0;
};
inline constexpr uint64_t kEventBytes = 32;  // in a file

}  // namespace bps::trace
