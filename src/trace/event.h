// Event: one stage that a call or a chunk has reached, with its time. A trace file contains the events of one rank or of
// one job on one server.
#pragma once
#include <cstdint>

namespace bps::trace {

enum class Stage : uint8_t {
  // A call, on every rank.
  kSubmitted = 1,  // the program has issued the call
  kAdmitted = 2,   // its stream has reached the call, and its chunks may be sent
  kComplete = 3,   // every sum is in the buffer of the program
  kFailed = 4,
  // A chunk, on the rank that sends it to its owner. `peer` is the owner, or kExchangePath.
  kChunkAdmitted = 5,  // the chunk is queued for sending
  kPushed = 6,         // the transport has taken the contribution
  kReceived = 7,       // the sum has arrived
  kCopyBegun = 8,      // the sum is copied from the lane's memory into the buffer
  kRetired = 9,        // the sum is in its place
  // A chunk, at its owner. On the exchange path, every machine is an owner.
  kArrived = 10,   // the contribution of machine `peer` has arrived
  kSumBegun = 11,  // all contributions are here
  kSummed = 12,
  kAnswered = 13,  // the transport has taken the answer to machine `peer`
};
inline constexpr uint8_t kMostStage = 13;

inline constexpr uint16_t kNoPeer = 0xffff, kExchangePath = 0xfffe;

// `call` and `history` identify a call, as in CallInfo. Call, owner and round identify a chunk.
struct Event {
  uint64_t time = 0;  // nanoseconds of the steady clock of this process
  uint64_t call = 0;
  uint64_t bytes = 0;
  uint32_t history = 0;
  uint32_t round = 0;       // of the call
  uint16_t peer = kNoPeer;  // an endpoint
  Stage stage = Stage::kSubmitted;
  uint8_t rail = 0;
};
inline constexpr uint64_t kEventBytes = 36;  // in a file

}  // namespace bps::trace
