// DataHeader: the header that precedes every chunk on a data connection.
//
// A push connection carries two messages for every chunk: the header and the payload, which may be empty. The chunks
// are in the order of the lane. The header of the first chunk of a call describes the call, so that the owner can
// compare the calls of all machines. The later chunks of the call have short headers. An answer connection also carries
// a header and a payload for every chunk, but only short headers. On the exchange path, one message carries the headers
// of several contributions (comm/lanes/exchange_step.h).
//
//   version u8 | flags u8 | sequence number of the chunk on its connection, modulo 2^16, u16     (little endian)
//   first chunk of a call: number of the call u64 | count u64 | type u8 | op u8 | history u32
//   with a scalar: scalar u64
//   for a fused call: number of calls in it u8 | for each of them: count u16, distance u8 (see FusedCalls)
//   for a part of a parameter, always with a call: ParamPart: param u32 | push u32 | machine u32 | offset u64 | count
//   u32 for the answer to it, and when a part is restored: ParamClock: version u64 | slowest u32 | machines u16 |
//   pushes of each u32 with BPS_CHECKSUM=1: CRC32C of the payload u32 CRC32C of the preceding header bytes u32
//
// The header does not contain the payload length, because the transport preserves message sizes. The sequence number is
// only a check, because a connection preserves the order of messages. The header always has a checksum. Without this
// checksum, a bit error in a header could look like a call that no rank made.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "src/base/status.h"
#include "src/wire/fused_calls.h"

namespace bps {

inline constexpr size_t kDataShortHeaderBytes = 4 + 4;                // without a call
inline constexpr size_t kDataCallBytes = kDataShortHeaderBytes + 22;  // with a call
inline constexpr size_t kDataFusedBytes = 1 + FusedCalls::kMaxCalls * 3;
// With a call, a scalar or the calls of a fused call, and a payload checksum. Those of parameters are shorter.
inline constexpr size_t kDataHeaderBytes = kDataCallBytes + kDataFusedBytes + 4;

// One collective call as a machine issued it. The CallInfo of all machines must agree in all fields except the scalar.
struct CallInfo {
  uint64_t number = 0;  // number of the call on its communicator, starting at 0
  uint64_t count = 0;   // number of elements of the whole buffer
  uint8_t type = 0;     // DataType
  uint8_t op = 0;       // CallOp
  bool hasScalar = false;
  uint64_t scalar = 0;  // ScalarBits, for CallOp::kPreMulSum
  // If true, the local GPU groups and other communicators carry out the call (src/nccl/local_gpu_group.h). This
  // communicator then moves no data and only checks that all ranks made the same call.
  bool byGpuGroups = false;
  // The checksum of all previous calls. See historyAfter().
  uint32_t history = 0;
  // The calls in a fused call. `number` is then the number of the first of them, and `count` is their sum.
  FusedCalls fused = {};

  // True if the two calls have the same number and the same previous calls.
  bool samePosition(const CallInfo& other) const { return number == other.number && history == other.history; }
  bool sameCall(const CallInfo& other) const {
    return number == other.number && count == other.count && type == other.type && op == other.op &&
           byGpuGroups == other.byGpuGroups && fused == other.fused;
  }
  // The number of calls that the application has made.
  uint64_t calls() const { return fused.empty() ? 1 : fused.size(); }
  // The number of elements that this communicator moves for the call.
  uint64_t elementsMoved() const { return byGpuGroups ? 0 : count; }
};

// The built-in values of bpsRedOp_t, one value for all user-defined operations, and the requests to parameters of
// asynchronous training (service/parameters/param_service.h).
enum class CallOp : uint8_t {
  kSum = 0,
  kProd = 1,
  kMax = 2,
  kMin = 3,
  kAvg = 4,
  kPreMulSum = 5,
  kParamSet = 6,
  kParamPush = 7,
  kParamPull = 8,
  kParamPushPull = 9,
  kParamReach = 10,     // the machine has reached barrier number ParamPart::push; which one has each machine reached?
  kParamRestore = 11,   // the value that the machine has pulled last, after the loss of the owner
  kParamAsk = 12,       // how many pushes the part contains, after the loss of a machine
  kParamUndo = 13,      // take back a push of the lost machine
  kParamSettled = 14,   // the last push of the lost machine is in all parts or in none
  kParamLeave = 15,     // answered when all machines have sent it: nobody needs this machine any more
  kParamRestored = 16,  // the machine has sent all its copies of the parts of a lost owner
};
constexpr bool isParamOp(CallOp op) { return op >= CallOp::kParamSet; }
// True if the request is for an owner itself, not for a part that it keeps.
constexpr bool isForOwner(CallOp op) { return op == CallOp::kParamReach || op >= CallOp::kParamSettled; }
constexpr bool isPush(CallOp op) { return op == CallOp::kParamPush || op == CallOp::kParamPushPull; }
// True if the chunk has a payload; of a part that is restored, it may be empty.
constexpr bool carriesContribution(CallOp op) {
  return !isParamOp(op) || isPush(op) || op == CallOp::kParamSet || op == CallOp::kParamRestore;
}
// True if the answer has a payload. A machine keeps the answer to each push, so that its pushes are not lost with the
// owner.
constexpr bool carriesAnswer(CallOp op) { return !isParamOp(op) || op == CallOp::kParamPull || isPush(op); }
// True if the caller wants the answer.
constexpr bool writesTarget(CallOp op) { return carriesAnswer(op) && op != CallOp::kParamPush; }

// The part of a parameter that one chunk carries.
struct ParamPart {
  uint32_t param = 0;    // parameters are numbered in the order in which they were made
  uint32_t push = 0;     // number of the push among those of its machine to the parameter, from 1; 0: not a push
  uint32_t machine = 0;  // for kParamAsk, kParamUndo and kParamSettled: the lost machine
  uint64_t offset = 0;   // elements from the start of the parameter
  uint32_t count = 0;    // elements
};

// How many pushes a value of a part contains.
struct ParamClock {
  static constexpr uint32_t kNone = UINT32_MAX;  // no machine still pushes

  uint64_t version = 0;            // pushes of all machines
  uint32_t slowest = kNone;        // the fewest pushes of a machine that still pushes
  std::vector<uint32_t> machines;  // pushes of each machine
};

// Returns the history of the call that follows `call`: a checksum of `call` and its history. If two machines have made
// the same number of calls, but different calls, their histories differ, except with probability 2^-32.
uint32_t historyAfter(const CallInfo& call);

// The name of a type in error texts: float32, bfloat16, ...
const char* typeName(uint8_t type);
// Describes a call for error texts, for example "all-reduce #7 of 1000 float32, sum".
std::string describe(const CallInfo& call);

// Describes two calls that have the same position but are not the same call. In fused calls, names the first call on
// which the two lists differ.
std::pair<std::string, std::string> describeDifference(const CallInfo& a, const CallInfo& b);

struct DataHeader {
  uint16_t sequence = 0;  // lower 16 bits of the chunk's number on this connection; numbers start at 0
  bool first = false;     // true if `call` is present; false for a later chunk of the previous chunk's call
  CallInfo call;
  std::optional<uint32_t> payload = std::nullopt;  // checksum of the payload if BPS_CHECKSUM=1
  std::optional<ParamPart> part = std::nullopt;    // if the operation of the call is one on parameters
  std::optional<ParamClock> clock = std::nullopt;  // in the answer to such a chunk, and when a part is restored

  static uint16_t sequenceForChunk(uint64_t chunk) { return static_cast<uint16_t>(chunk); }
  bool isForChunk(uint64_t chunk) const { return sequence == sequenceForChunk(chunk); }
};

using DataHeaderBytes = std::array<uint8_t, kDataHeaderBytes>;
// The most bytes of a header with a clock of this many machines.
constexpr size_t headerBytesWithClock(size_t machines) {
  return kDataHeaderBytes + sizeof(uint64_t) + sizeof(uint32_t) + sizeof(uint16_t) + machines * sizeof(uint32_t);
}
// Returns the length of the encoded header. `bytes` has room for it.
size_t encode(const DataHeader& header, std::span<uint8_t> bytes);
// Decodes a header. Fails if the checksum, version, flags, size, type or op in the header is invalid.
Result<DataHeader> decodeDataHeader(std::span<const uint8_t> bytes);

// Fails if the payload does not match the checksum in the header. Only jobs with BPS_CHECKSUM=1 call checkPayload().
// `chunk` and `call` appear only in the error message.
Status checkPayload(const DataHeader& header, std::span<const uint8_t> payload, uint64_t chunk, const CallInfo& call);

}  // namespace bps
