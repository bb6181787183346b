// DataHeader: the header that precedes every chunk on a data connection.
//
// A push connection carries for every chunk, in lane order, a header message and a payload message (possibly empty).
// The header of a call's first chunk describes the call, so that the owner can compare the calls of the machines. Later
// chunks belong to the same call and have short headers. An answer connection carries the same pairs, with short
// headers only.
//
//   version u8 | flags u8 | sequence number of the chunk on its connection, modulo 2^16, u16     (little endian)
//   first chunk of a call: number of the call u64 | count u64 | type u8 | op u8 | history u32 | scalar u64 (optional)
//   with BPS_CHECKSUM=1: CRC32C of the payload u32
//   CRC32C of the preceding header bytes u32
//
// The header has no payload length, because the transport preserves message sizes. Connections keep the order, so the
// sequence number only serves as a check. The header checksum is always present: without it, a bit error could look
// like a call that no rank made.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "src/base/status.h"

namespace bps {

inline constexpr size_t kDataShortHeaderBytes = 4 + 4;                // without a call
inline constexpr size_t kDataCallBytes = kDataShortHeaderBytes + 22;  // with a call
inline constexpr size_t kDataHeaderBytes = kDataCallBytes + 8 + 4;    // the longest: call, scalar, payload checksum

// One collective call as a machine issued it. All machines must agree on everything except the scalar.
struct CallInfo {
  uint64_t number = 0;  // of the call on its communicator, starting at 0
  uint64_t count = 0;   // elements of the whole buffer
  uint8_t type = 0;     // DataType
  uint8_t op = 0;       // CallOp
  bool hasScalar = false;
  uint64_t scalar = 0;  // ScalarBits, for CallOp::kPreMulSum
  // True: the local GPU groups and other communicators execute the call (src/nccl/local_gpu_group.h). This communicator
  // moves no data; it only checks that all ranks made the same call.
  bool byGpuGroups = false;
  // Checksum of all previous calls, see historyAfter().
  uint32_t history = 0;

  // Whether both have the same number and the same previous calls.
  bool samePosition(const CallInfo& other) const { return number == other.number && history == other.history; }
  bool sameCall(const CallInfo& other) const {
    return number == other.number && count == other.count && type == other.type && op == other.op &&
           byGpuGroups == other.byGpuGroups;
  }
  // Elements that this communicator moves.
  uint64_t elementsMoved() const { return byGpuGroups ? 0 : count; }
};

// The built-in values of bpsRedOp_t, and one value for all user-defined operations.
enum class CallOp : uint8_t { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4, kPreMulSum = 5 };

// Returns the history of the next call: a checksum of `call` and its history. Two machines that made the same number of
// calls, but different calls, have different histories, except with probability 2^-32.
uint32_t historyAfter(const CallInfo& call);

// For error messages: "all-reduce #7 of 1000 float32, sum".
std::string describe(const CallInfo& call);

struct DataHeader {
  uint16_t sequence = 0;  // lower 16 bits of the chunk's number on this connection, which starts at 0
  bool first = false;     // true: `call` is present; false: the chunk belongs to the call of the previous chunk
  // True: there is no answer. Every machine sends this chunk to every other machine and sums for itself.
  bool usesExchangePath = false;
  CallInfo call;
  std::optional<uint32_t> payload = std::nullopt;  // checksum of the payload, if BPS_CHECKSUM=1

  static uint16_t sequenceForChunk(uint64_t chunk) { return static_cast<uint16_t>(chunk); }
  bool isForChunk(uint64_t chunk) const { return sequence == sequenceForChunk(chunk); }
};

using DataHeaderBytes = std::array<uint8_t, kDataHeaderBytes>;
// Returns the length of the encoded header.
size_t encode(const DataHeader& header, DataHeaderBytes& bytes);
// Fails if the checksum, version, flags, size, type or op of the header is invalid.
Result<DataHeader> decodeDataHeader(std::span<const uint8_t> bytes);

// For jobs with BPS_CHECKSUM=1: fails unless the payload matches the checksum in the header. `chunk` and `call` only
// serve the error message.
Status checkPayload(const DataHeader& header, std::span<const uint8_t> payload, uint64_t chunk, const CallInfo& call);

}  // namespace bps
