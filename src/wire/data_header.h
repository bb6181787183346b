// What precedes every chunk on a data connection.
//
// A push connection carries, for every chunk in lane order, a header message and a payload message (possibly of zero
// bytes). The first chunk of a call carries the whole call, so that the owner can compare what the machines asked for;
// later chunks belong to the same one. An answer connection carries the same pairs, with short headers.
//
//   version u8 | flags u8 | number of the chunk on its connection, modulo 2^16, u16              (little endian)
//   of a first chunk: number of the call u64 | count u64 | type u8 | op u8 | history u32 | the scalar u64, if any
//   with BPS_CHECKSUM=1: CRC32C of the payload u32
//   CRC32C of the header up to here u32
//
// There is a header for every chunk, so it says no more than it must: the transport tells how long the payload is, and
// the number is only checked, for order is what the connection guarantees. The header's own checksum is always there:
// without it, a flipped bit would look like a call that a rank never made.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "src/base/status.h"

namespace bps {

inline constexpr size_t kDataShortHeaderBytes = 4 + 4;                // without the call
inline constexpr size_t kDataCallBytes = kDataShortHeaderBytes + 22;  // with it
inline constexpr size_t kDataHeaderBytes = kDataCallBytes + 8 + 4;    // and with a scalar and a checksum: the longest

// One collective call as a machine issued it. Everything but the scalar must be alike on all.
struct CallInfo {
  uint64_t number = 0;  // of the call on its communicator, from 0
  uint64_t count = 0;   // elements of the whole buffer
  uint8_t type = 0;     // DataType
  uint8_t op = 0;       // CallOp
  bool hasScalar = false;
  uint64_t scalar = 0;  // ScalarBits, for CallOp::kPreMulSum
  // Teams of GPUs carry it out (src/nccl/local_gpu_group.h), and other communicators; this one only compares what ranks
  // called.
  bool byGpuGroups = false;
  // Stands for all calls before this one, see historyAfter().
  uint32_t history = 0;

  // Both have the same number, and what was called before them was the same.
  bool samePosition(const CallInfo& other) const { return number == other.number && history == other.history; }
  bool sameCall(const CallInfo& other) const {
    return number == other.number && count == other.count && type == other.type && op == other.op &&
           byGpuGroups == other.byGpuGroups;
  }
  // Elements that this communicator moves.
  uint64_t elementsMoved() const { return byGpuGroups ? 0 : count; }
};

// bpsRedOp_t's built-in values, and one for all operations that a user made.
enum class CallOp : uint8_t { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4, kPreMulSum = 5 };

// The history of the next call: a checksum of `call` and of its own history. Two machines that made as many, but
// different calls have different histories (but for one case in 2^32).
uint32_t historyAfter(const CallInfo& call);

// "all-reduce #7 of 1000 float32, sum"
std::string describe(const CallInfo& call);

struct DataHeader {
  uint16_t sequence = 0;  // the chunk's number on this connection, from 0; what the header has room for of it
  bool first = false;     // `call` is given; else it is that of the chunk before
  bool usesExchangePath =
      false;  // no answer is due: every machine has sent this to every other, and sums it for itself
  CallInfo call;
  std::optional<uint32_t> payload = std::nullopt;  // its checksum, where the job has checksums

  static uint16_t sequenceForChunk(uint64_t chunk) { return static_cast<uint16_t>(chunk); }
  bool isForChunk(uint64_t chunk) const { return sequence == sequenceForChunk(chunk); }
};

using DataHeaderBytes = std::array<uint8_t, kDataHeaderBytes>;
// Returns how many of the bytes to send.
size_t encode(const DataHeader& header, DataHeaderBytes& bytes);
// Checks the header's checksum, version, flags, size, type and op.
Result<DataHeader> decodeDataHeader(std::span<const uint8_t> bytes);

// Of a job with BPS_CHECKSUM=1: fails unless the payload that came behind the header is the one that was sent. `chunk`
// and `call` are for the message.
Status checkPayload(const DataHeader& header, std::span<const uint8_t> payload, uint64_t chunk, const CallInfo& call);

}  // namespace bps
