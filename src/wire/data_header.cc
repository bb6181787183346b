#include "src/wire/data_header.h"

#include <cstring>

#include "src/base/format.h"

namespace bps {
namespace {

constexpr uint8_t kVersion = 2;
constexpr uint8_t kFirst = 1, kScalar = 2, kDirect = 4;
constexpr uint8_t kTypes = 12, kOps = 6;

constexpr const char* kTypeNames[kTypes] = {"int8",    "uint8",   "int32",   "uint32",   "int64",      "uint64",
                                            "float16", "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2"};
constexpr const char* kOpNames[kOps] = {"sum", "prod", "max", "min", "avg", "pre-multiplied sum"};

// Fixed positions of the fields, little endian.
enum Offset : size_t {
  kAtSequence = 0,
  kAtBytes = 8,
  kAtVersion = 12,
  kAtFlags = 13,
  kAtNumber = 16,
  kAtCount = 24,
  kAtScalar = 32,
  kAtType = 40,
  kAtOp = 41,
};

template <class T>
void store(uint8_t* at, T value) {
  for (size_t i = 0; i < sizeof(T); ++i) at[i] = static_cast<uint8_t>(value >> (8 * i));
}

template <class T>
T load(const uint8_t* at) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) value = static_cast<T>(value | (static_cast<T>(at[i]) << (8 * i)));
  return value;
}

}  // namespace

std::string describe(const CallInfo& call) {
  return fmt::format("all-reduce #{} of {} {}, {}", call.number, call.count,
                     call.type < kTypes ? kTypeNames[call.type] : "?", call.op < kOps ? kOpNames[call.op] : "?");
}

size_t encode(const DataHeader& header, DataHeaderBytes& bytes) {
  bytes.fill(0);
  uint8_t* at = bytes.data();
  store(at + kAtSequence, header.sequence);
  store(at + kAtBytes, header.bytes);
  at[kAtVersion] = kVersion;
  at[kAtFlags] = static_cast<uint8_t>((header.first ? kFirst : 0) | (header.call.hasScalar ? kScalar : 0) |
                                      (header.direct ? kDirect : 0));
  store(at + kAtNumber, header.call.number);
  if (!header.first) return kDataShortHeaderBytes;
  store(at + kAtCount, header.call.count);
  store(at + kAtScalar, header.call.scalar);
  at[kAtType] = header.call.type;
  at[kAtOp] = header.call.op;
  return kDataHeaderBytes;
}

Result<DataHeader> decodeDataHeader(std::span<const uint8_t> bytes) {
  if (bytes.size() < kDataShortHeaderBytes)
    return failure(Code::kRemote, "chunk header of {} bytes is truncated", bytes.size());
  const uint8_t* at = bytes.data();
  if (at[kAtVersion] != kVersion)
    return failure(Code::kRemote, "chunk header version {}, this side speaks {}; rebuild one side", at[kAtVersion],
                   kVersion);
  DataHeader header;
  header.sequence = load<uint64_t>(at + kAtSequence);
  header.bytes = load<uint32_t>(at + kAtBytes);
  header.first = (at[kAtFlags] & kFirst) != 0;
  header.direct = (at[kAtFlags] & kDirect) != 0;
  header.call.hasScalar = (at[kAtFlags] & kScalar) != 0;
  header.call.number = load<uint64_t>(at + kAtNumber);
  if (bytes.size() != (header.first ? kDataHeaderBytes : kDataShortHeaderBytes))
    return failure(Code::kRemote, "chunk header of {} bytes has the wrong length", bytes.size());
  if (!header.first) return header;
  header.call.count = load<uint64_t>(at + kAtCount);
  header.call.scalar = load<uint64_t>(at + kAtScalar);
  header.call.type = at[kAtType];
  header.call.op = at[kAtOp];
  if (header.call.type >= kTypes || header.call.op >= kOps)
    return failure(Code::kRemote, "chunk header with unknown type {} or operation {}", header.call.type,
                   header.call.op);
  return header;
}

}  // namespace bps
