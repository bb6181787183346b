// What precedes every chunk on a data connection.
//
// A push connection carries, for every chunk in lane order, a header message and a payload message (possibly of zero
// bytes). The first chunk of a call carries the whole call, so that the owner can compare what the machines asked for;
// later chunks carry only its number. An answer connection carries the same pairs, with short headers. The sequence
// number is only checked: order is what the connection guarantees.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "src/base/status.h"

namespace bps {

inline constexpr size_t kDataHeaderBytes = 56;       // with the call
inline constexpr size_t kDataShortHeaderBytes = 24;  // without

// One collective call as a machine issued it. Everything but the scalar must be alike on all.
struct CallInfo {
  uint64_t number = 0;  // of the call on its communicator, from 0
  uint64_t count = 0;   // elements of the whole buffer
  uint8_t type = 0;     // DataType
  uint8_t op = 0;       // CallOp
  bool hasScalar = false;
  uint64_t scalar = 0;  // ScalarBits, for CallOp::kPreMulSum

  bool sameCall(const CallInfo& other) const {
    return number == other.number && count == other.count && type == other.type && op == other.op;
  }
};

// bpsRedOp_t's built-in values, and one for all operations that a user made.
enum class CallOp : uint8_t { kSum = 0, kProd = 1, kMax = 2, kMin = 3, kAvg = 4, kPreMulSum = 5 };

// "all-reduce #7 of 1000 float32, sum"
std::string describe(const CallInfo& call);

struct DataHeader {
  uint64_t sequence = 0;  // chunks on this connection, from 0
  uint32_t bytes = 0;     // of the payload that follows
  bool first = false;     // `call` is whole; else only its number
  bool direct = false;    // no answer is due: every machine has sent this to every other, and sums it for itself
  CallInfo call;
};

using DataHeaderBytes = std::array<uint8_t, kDataHeaderBytes>;
// Returns how many of the bytes to send.
size_t encode(const DataHeader& header, DataHeaderBytes& bytes);
// Checks version, size, type and op.
Result<DataHeader> decodeDataHeader(std::span<const uint8_t> bytes);

}  // namespace bps
