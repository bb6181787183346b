#include "src/wire/data_header.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "src/base/checksum/crc32c.h"
#include "src/base/format.h"

namespace bps {
namespace {

constexpr uint8_t kVersion = 6;
constexpr uint8_t kFirst = 1, kScalar = 2, kByGpuGroups = 4, kPayload = 8, kFused = 16, kPart = 32, kClock = 64,
                  kAllFlags = 127;
constexpr uint8_t kTypes = 12, kOps = 17;

constexpr const char* kTypeNames[kTypes] = {"int8",    "uint8",   "int32",   "uint32",   "int64",      "uint64",
                                            "float16", "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2"};
constexpr const char* kOpNames[kOps] = {"sum",
                                        "prod",
                                        "max",
                                        "min",
                                        "avg",
                                        "pre-multiplied sum",
                                        "initial value",
                                        "push",
                                        "pull",
                                        "push and pull",
                                        "barrier",
                                        "restored value",
                                        "question",
                                        "undo",
                                        "settlement",
                                        "end",
                                        "end of restored values"};

// Offsets of the fields.
enum Offset : size_t {
  kAtVersion = 0,
  kAtFlags = 1,
  kAtSequence = 2,
  kAtNumber = 4,
  kAtCount = 12,
  kAtType = 20,
  kAtOp = 21,
  kAtHistory = 22,
  kAtScalar = 26,
};
constexpr size_t kCheckBytes = sizeof(uint32_t);
constexpr size_t kFusedEntryBytes = sizeof(uint16_t) + sizeof(uint8_t);
constexpr size_t kPartBytes = 4 * sizeof(uint32_t) + sizeof(uint64_t);
constexpr size_t kClockBytes = sizeof(uint64_t) + sizeof(uint32_t) + sizeof(uint16_t);  // without the machines

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

// Appends the payload's checksum, if there is one, and then the header's checksum to the first `size` bytes of the
// header. Returns the new size of the header.
size_t seal(const DataHeader& header, std::span<uint8_t> bytes, size_t size) {
  if (header.payload) {
    store(bytes.data() + size, *header.payload);
    size += kCheckBytes;
  }
  store(bytes.data() + size, crc32c(bytes.data(), size));
  return size + kCheckBytes;
}

size_t storePart(const ParamPart& part, uint8_t* bytes, size_t size) {
  store(bytes + size, part.param);
  store(bytes + size + 4, part.push);
  store(bytes + size + 8, part.machine);
  store(bytes + size + 12, part.offset);
  store(bytes + size + 20, part.count);
  return size + kPartBytes;
}

size_t storeClock(const ParamClock& clock, uint8_t* bytes, size_t size) {
  store(bytes + size, clock.version);
  store(bytes + size + 8, clock.slowest);
  store(bytes + size + 12, static_cast<uint16_t>(clock.machines.size()));
  size += kClockBytes;
  for (const uint32_t pushes : clock.machines) {
    store(bytes + size, pushes);
    size += sizeof pushes;
  }
  return size;
}

// The clock begins at `begin`. Returns its bytes, or 0 if they do not fit into the header.
size_t clockBytes(std::span<const uint8_t> bytes, size_t begin) {
  if (bytes.size() < begin + kClockBytes) return 0;
  const size_t size = kClockBytes + load<uint16_t>(bytes.data() + begin + 12) * sizeof(uint32_t);
  return bytes.size() < begin + size ? 0 : size;
}

ParamClock loadClock(const uint8_t* at) {
  ParamClock clock;
  clock.version = load<uint64_t>(at);
  clock.slowest = load<uint32_t>(at + 8);
  clock.machines.resize(load<uint16_t>(at + 12));
  at += kClockBytes;
  for (uint32_t& pushes : clock.machines) {
    pushes = load<uint32_t>(at);
    at += sizeof pushes;
  }
  return clock;
}

ParamPart loadPart(const uint8_t* at) {
  return {load<uint32_t>(at), load<uint32_t>(at + 4), load<uint32_t>(at + 8), load<uint64_t>(at + 12),
          load<uint32_t>(at + 20)};
}

size_t storeFused(const FusedCalls& calls, uint8_t* bytes, size_t size) {
  bytes[size++] = static_cast<uint8_t>(calls.size());
  for (const FusedCalls::Entry& entry : calls) {
    store(bytes + size, entry.count);
    bytes[size + sizeof entry.count] = entry.distance;
    size += kFusedEntryBytes;
  }
  return size;
}

Status loadFused(CallInfo& call, const uint8_t* at) {
  uint64_t count = 0;
  const size_t calls = *at++;
  for (size_t i = 0; i < calls; ++i, at += kFusedEntryBytes) {
    const FusedCalls::Entry entry{load<uint16_t>(at), at[sizeof(uint16_t)]};
    if ((entry.distance == 0) != (i == 0))
      return failure(Code::kRemote, "chunk header of a fused call with invalid call numbers");
    count += entry.count;
    call.fused.add(entry);
  }
  if (count == call.count) return {};
  return failure(Code::kRemote, "chunk header of a fused call of {} elements, whose calls have {}", call.count, count);
}

// The calls in a fused call, or the call itself.
std::vector<CallInfo> applicationCalls(const CallInfo& call) {
  CallInfo one = call;
  one.fused = {};
  std::vector<CallInfo> calls;
  for (const FusedCalls::Entry& entry : call.fused) {
    one.number += entry.distance;
    one.count = entry.count;
    calls.push_back(one);
  }
  if (calls.empty()) calls.push_back(one);
  return calls;
}

}  // namespace

const char* typeName(uint8_t type) { return type < kTypes ? kTypeNames[type] : "?"; }

std::string describe(const CallInfo& call) {
  if (isParamOp(static_cast<CallOp>(call.op)))
    return fmt::format("{} #{} of a parameter of {} {}", call.op < kOps ? kOpNames[call.op] : "?", call.number,
                       call.count, typeName(call.type));
  const std::vector<CallInfo> calls = applicationCalls(call);
  const std::string number = calls.size() == 1 ? fmt::format("all-reduce #{}", call.number)
                                               : fmt::format("{} fused all-reduces, #{} to #{},", calls.size(),
                                                             calls.front().number, calls.back().number);
  return fmt::format("{} of {} {}, {}{}", number, call.count, typeName(call.type),
                     call.op < kOps ? kOpNames[call.op] : "?",
                     call.byGpuGroups ? ", on device memory by NCCL inside machines" : "");
}

std::pair<std::string, std::string> describeDifference(const CallInfo& a, const CallInfo& b) {
  const std::vector<CallInfo> inA = applicationCalls(a), inB = applicationCalls(b);
  const auto [atA, atB] = std::mismatch(inA.begin(), inA.end(), inB.begin(), inB.end(),
                                        [](const CallInfo& x, const CallInfo& y) { return x.sameCall(y); });
  const bool endA = atA == inA.end(), endB = atB == inB.end();
  if (endA && endB) return {describe(a), describe(b)};
  if (!endA && !endB && atA->number == atB->number) return {describe(*atA), describe(*atB)};
  // The other rank made this call with another type or operation, in no group or not at all.
  const bool extraInA = endB || (!endA && atA->number < atB->number);
  const CallInfo& extra = extraInA ? *atA : *atB;
  std::pair<std::string, std::string> texts{
      fmt::format("{}, in a group with #{}", describe(extra), a.number),
      fmt::format("{}, not in a group with this #{}", describe(inA.front()), extra.number)};
  if (!extraInA) std::swap(texts.first, texts.second);
  return texts;
}

uint32_t historyAfter(const CallInfo& call) {
  std::array<uint8_t, sizeof(uint64_t) + 3> bytes;
  store(bytes.data(), call.count);
  bytes[8] = call.type;
  bytes[9] = call.op;
  bytes[10] = call.byGpuGroups ? 1 : 0;
  const uint32_t history = crc32c(bytes.data(), bytes.size(), call.history);
  if (call.fused.empty()) return history;
  std::array<uint8_t, kDataFusedBytes> fused;
  return crc32c(fused.data(), storeFused(call.fused, fused.data(), 0), history);
}

size_t encode(const DataHeader& header, std::span<uint8_t> bytes) {
  uint8_t* at = bytes.data();
  const bool scalar = header.first && header.call.hasScalar;
  const bool fused = header.first && !header.call.fused.empty();
  const bool part = header.first && header.part.has_value(),
             clock = (part || !header.first) && header.clock.has_value();
  at[kAtVersion] = kVersion;
  const bool byGpuGroups = header.first && header.call.byGpuGroups;
  at[kAtFlags] = static_cast<uint8_t>((header.first ? kFirst : 0) | (scalar ? kScalar : 0) |
                                      (byGpuGroups ? kByGpuGroups : 0) | (fused ? kFused : 0) |
                                      (header.payload ? kPayload : 0) | (part ? kPart : 0) | (clock ? kClock : 0));
  store(at + kAtSequence, header.sequence);
  if (!header.first) return seal(header, bytes, clock ? storeClock(*header.clock, at, kAtNumber) : kAtNumber);
  store(at + kAtNumber, header.call.number);
  store(at + kAtCount, header.call.count);
  at[kAtType] = header.call.type;
  at[kAtOp] = header.call.op;
  store(at + kAtHistory, header.call.history);
  if (part) {
    const size_t size = storePart(*header.part, at, kAtScalar);
    return seal(header, bytes, clock ? storeClock(*header.clock, at, size) : size);
  }
  if (fused) return seal(header, bytes, storeFused(header.call.fused, at, kAtScalar));
  if (!scalar) return seal(header, bytes, kAtScalar);
  store(at + kAtScalar, header.call.scalar);
  return seal(header, bytes, kAtScalar + sizeof(uint64_t));
}

Result<DataHeader> decodeDataHeader(std::span<const uint8_t> bytes) {
  if (bytes.size() < kDataShortHeaderBytes)
    return failure(Code::kRemote, "chunk header of {} bytes is truncated", bytes.size());
  const uint8_t* at = bytes.data();
  const size_t checked = bytes.size() - kCheckBytes;
  if (load<uint32_t>(at + checked) != crc32c(at, checked))
    return failure(Code::kRemote, "the stream is corrupt: the checksum of a chunk header of {} bytes is wrong",
                   bytes.size());
  if (at[kAtVersion] != kVersion)
    return failure(Code::kRemote, "chunk header version {}, this side speaks {}; rebuild one side", at[kAtVersion],
                   kVersion);
  const uint8_t flags = at[kAtFlags];
  DataHeader header;
  header.sequence = load<uint16_t>(at + kAtSequence);
  header.first = (flags & kFirst) != 0;
  header.call.hasScalar = (flags & kScalar) != 0;
  header.call.byGpuGroups = (flags & kByGpuGroups) != 0;
  const bool fused = (flags & kFused) != 0;
  const bool part = (flags & kPart) != 0, clock = (flags & kClock) != 0;
  const int kinds = (header.call.hasScalar ? 1 : 0) + (fused ? 1 : 0) + (part ? 1 : 0);
  if ((flags & ~kAllFlags) != 0 || ((kinds > 0 || header.call.byGpuGroups) && !header.first) || kinds > 1 ||
      (clock && header.first && !part) || (part && header.call.byGpuGroups))
    return failure(Code::kRemote, "chunk header with invalid flags {:#x}", flags);
  const size_t calls = fused && bytes.size() > kDataCallBytes ? at[kAtScalar] : 0;
  if (fused && (calls < 2 || calls > FusedCalls::kMaxCalls))
    return failure(Code::kRemote, "chunk header of {} fused calls", calls);
  const size_t withCall = kDataCallBytes + (header.call.hasScalar ? sizeof(uint64_t) : 0) +
                          (fused ? sizeof(uint8_t) + calls * kFusedEntryBytes : 0) + (part ? kPartBytes : 0);
  const bool withPayload = (flags & kPayload) != 0;
  const size_t atClock = (header.first ? withCall : kDataShortHeaderBytes) - kCheckBytes;
  const size_t ofClock = clock ? clockBytes(bytes, atClock) : 0;
  if (clock && ofClock == 0)
    return failure(Code::kRemote, "chunk header of {} bytes with a truncated clock", bytes.size());
  const size_t size = atClock + ofClock + kCheckBytes + (withPayload ? kCheckBytes : 0);
  if (bytes.size() != size) return failure(Code::kRemote, "chunk header of {} bytes, expected {}", bytes.size(), size);
  if (withPayload) header.payload = load<uint32_t>(at + checked - kCheckBytes);
  if (clock) header.clock = loadClock(at + atClock);
  if (!header.first) return header;
  header.call.number = load<uint64_t>(at + kAtNumber);
  header.call.count = load<uint64_t>(at + kAtCount);
  header.call.type = at[kAtType];
  header.call.op = at[kAtOp];
  header.call.history = load<uint32_t>(at + kAtHistory);
  if (header.call.hasScalar) header.call.scalar = load<uint64_t>(at + kAtScalar);
  if (fused) BPS_TRY(loadFused(header.call, at + kAtScalar));
  if (part) header.part = loadPart(at + kAtScalar);
  if (header.call.type >= kTypes || header.call.op >= kOps)
    return failure(Code::kRemote, "chunk header with unknown type {} or operation {}", header.call.type,
                   header.call.op);
  if (isParamOp(static_cast<CallOp>(header.call.op)) != part)
    return failure(Code::kRemote, "chunk header with operation {}{}", header.call.op, part ? " for a parameter" : "");
  return header;
}

Status checkPayload(const DataHeader& header, std::span<const uint8_t> payload, uint64_t chunk, const CallInfo& call) {
  if (!header.payload)
    return failure(Code::kRemote, "chunk {} of {} has no checksum, but BPS_CHECKSUM=1 requires one", chunk,
                   describe(call));
  const uint32_t received = crc32c(payload.data(), payload.size());
  if (received == *header.payload) return {};
  return failure(Code::kRemote, "the data is corrupt: chunk {}, {} bytes of {}, has CRC32C {:08x}, expected {:08x}",
                 chunk, payload.size(), describe(call), received, *header.payload);
}

}  // namespace bps
