#include "src/wire/data_header.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>
#include <vector>

#include "src/base/checksum/crc32c.h"

namespace bps {
namespace {

DataHeader sample(bool first = true, bool scalar = true) {
  DataHeader header;
  header.sequence = 0x0102;
  header.first = first;
  header.call = {0xa1a2a3a4a5a6a7a8, 0xb1b2b3b4b5b6b7b8, 9, 5, scalar, 0xc1c2c3c4c5c6c7c8, first, 0xd1d2d3d4};
  return header;
}

std::vector<uint8_t> encoded(const DataHeader& header) {
  DataHeaderBytes bytes;
  const size_t size = encode(header, bytes);
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)};
}

TEST(DataHeader, CarriesAllFieldsOfAFirstChunk) {
  for (const bool scalar : {true, false}) {
    const std::vector<uint8_t> bytes = encoded(sample(true, scalar));
    ASSERT_EQ(bytes.size(), scalar ? 38U : 30U);
    auto decoded = decodeDataHeader(bytes);
    ASSERT_TRUE(decoded.ok()) << decoded.error().message();
    const DataHeader header = std::move(decoded).value();
    EXPECT_EQ(header.sequence, sample().sequence);
    EXPECT_TRUE(header.first);
    EXPECT_TRUE(header.call.sameCall(sample().call));
    EXPECT_TRUE(header.call.samePosition(sample().call));
    EXPECT_EQ(header.call.hasScalar, scalar);
    EXPECT_EQ(header.call.scalar, scalar ? sample().call.scalar : 0);
  }
}

TEST(DataHeader, LaterChunksHaveAShorterHeader) {
  const DataHeader header = sample(false);
  const std::vector<uint8_t> bytes = encoded(header);
  ASSERT_EQ(bytes.size(), 8U);
  const DataHeader decoded = decodeDataHeader(bytes).value();
  EXPECT_FALSE(decoded.first);
  EXPECT_EQ(decoded.sequence, header.sequence);
}

TEST(DataHeader, ChunksAreNumberedModulo65536) {
  DataHeader header;
  for (const uint64_t chunk : {uint64_t{0}, uint64_t{65535}, uint64_t{65536}, uint64_t{65537}, uint64_t{1} << 40}) {
    header.sequence = DataHeader::sequenceForChunk(chunk);
    const DataHeader back = decodeDataHeader(encoded(header)).value();
    EXPECT_TRUE(back.isForChunk(chunk)) << chunk;
    EXPECT_FALSE(back.isForChunk(chunk + 1)) << chunk;
    EXPECT_FALSE(back.isForChunk(chunk - 1)) << chunk;
    EXPECT_FALSE(back.isForChunk(chunk + 65535)) << chunk;
  }
}

TEST(DataHeader, RefusesInvalidHeaders) {
  for (const DataHeader& header : {sample(), sample(true, false), sample(false)}) {
    std::vector<uint8_t> bytes = encoded(header);
    for (size_t cut = 0; cut < bytes.size(); ++cut)
      EXPECT_FALSE(decodeDataHeader(std::span(bytes).first(cut)).ok()) << cut << " of " << bytes.size();
    bytes.push_back(0);
    EXPECT_FALSE(decodeDataHeader(bytes).ok()) << bytes.size();
  }
  // The test gives each invalid header a matching checksum, as if the sending program had made the error.
  const auto why = [](std::vector<uint8_t> bytes, size_t at, uint8_t value) {
    bytes[at] = value;
    const uint32_t check = crc32c(bytes.data(), bytes.size() - sizeof(uint32_t));
    std::memcpy(bytes.data() + bytes.size() - sizeof check, &check, sizeof check);
    auto decoded = decodeDataHeader(bytes);
    return decoded.ok() ? std::string() : std::string(decoded.error().message());
  };
  const std::vector<uint8_t> longest = encoded(sample());
  EXPECT_EQ(why(longest, 0, 2), "chunk header version 2, this side speaks 6; rebuild one side");
  EXPECT_EQ(why(longest, 20, 12), "chunk header with unknown type 12 or operation 5");
  EXPECT_EQ(why(longest, 21, 17), "chunk header with unknown type 9 or operation 17");
  EXPECT_EQ(why(longest, 1, 0), "chunk header of 38 bytes, expected 8");
  EXPECT_EQ(why(longest, 1, 1), "chunk header of 38 bytes, expected 30");
  EXPECT_EQ(why(longest, 1, 0x83), "chunk header with invalid flags 0x83");
  EXPECT_EQ(why(encoded(sample(false)), 1, 2), "chunk header with invalid flags 0x2");
}

TEST(DataHeader, EveryFlippedBitIsDetected) {
  for (const DataHeader& header : {sample(), sample(true, false), sample(false)}) {
    std::vector<uint8_t> bytes = encoded(header);
    for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      std::vector<uint8_t> flipped = bytes;
      flipped[bit / 8] = static_cast<uint8_t>(flipped[bit / 8] ^ (1U << (bit % 8)));
      auto decoded = decodeDataHeader(flipped);
      ASSERT_FALSE(decoded.ok()) << bit;
      EXPECT_NE(std::string(decoded.error().message()).find("the stream is corrupt"), std::string::npos) << bit;
    }
  }
}

TEST(DataHeader, CarriesAChecksumOfThePayload) {
  for (DataHeader header : {sample(), sample(true, false), sample(false)}) {
    const size_t without = encoded(header).size();
    header.payload = 0xe3069283;
    const std::vector<uint8_t> bytes = encoded(header);
    EXPECT_EQ(bytes.size(), without + 4);
    EXPECT_LE(bytes.size(), kDataHeaderBytes);
    EXPECT_EQ(decodeDataHeader(bytes).value().payload, header.payload);
    std::vector<uint8_t> payload{'1', '2', '3', '4', '5', '6', '7', '8', '9'};
    EXPECT_TRUE(checkPayload(header, payload, 7, header.call).ok());
    payload[4] = 'x';
    const auto why = std::string(checkPayload(header, payload, 7, header.call).message());
    EXPECT_NE(why.find("the data is corrupt: chunk 7, 9 bytes of all-reduce #"), std::string::npos) << why;
    EXPECT_NE(why.find("expected e3069283"), std::string::npos) << why;
  }
  EXPECT_NE(std::string(checkPayload(sample(), {}, 0, {}).message()).find("has no checksum"), std::string::npos);
}

TEST(CallInfo, HistoriesStayDifferentAfterDifferentCalls) {
  CallInfo call{1, 2, 3, 4, false, 0, false, 5};
  std::set<uint32_t> histories{historyAfter(call)};
  for (auto change : std::vector<void (*)(CallInfo&)>{
           [](CallInfo& c) { ++c.count; }, [](CallInfo& c) { ++c.type; }, [](CallInfo& c) { --c.op; },
           [](CallInfo& c) { c.byGpuGroups = true; }, [](CallInfo& c) { c.history += 1000; }}) {
    CallInfo other = call;
    change(other);
    EXPECT_TRUE(histories.insert(historyAfter(other)).second);
    CallInfo next = call, afterOther = call;
    next.history = historyAfter(call);
    afterOther.history = historyAfter(other);
    EXPECT_NE(historyAfter(next), historyAfter(afterOther));
  }
  call.scalar = 9;
  EXPECT_TRUE(histories.contains(historyAfter(call))) << "scalars may differ";
}

TEST(DataHeader, DescribesTheCallAsText) {
  EXPECT_EQ(describe({7, 1000, 7, 0, false, 0}), "all-reduce #7 of 1000 float32, sum");
  EXPECT_EQ(describe({0, 1, 9, 4, false, 0}), "all-reduce #0 of 1 bfloat16, avg");
}

CallInfo fusedCall(std::vector<FusedCalls::Entry> entries) {
  CallInfo call{5, 0, 7, 0, false, 0};
  for (const FusedCalls::Entry& entry : entries) {
    call.count += entry.count;
    call.fused.add(entry);
  }
  return call;
}

TEST(DataHeader, CarriesTheCallsOfAFusedCall) {
  DataHeader header;
  header.first = true;
  header.call = fusedCall({{256, 0}, {0, 1}, {16384, 255}});
  const std::vector<uint8_t> bytes = encoded(header);
  EXPECT_EQ(bytes.size(), 30U + 1 + 3 * 3);
  EXPECT_TRUE(decodeDataHeader(bytes).value().call.sameCall(header.call));
  header.payload = 1;
  while (header.call.fused.size() < FusedCalls::kMaxCalls) header.call.fused.add({0, 1});
  EXPECT_EQ(encoded(header).size(), kDataHeaderBytes);
  EXPECT_TRUE(decodeDataHeader(encoded(header)).value().call.sameCall(header.call));
}

DataHeader partHeader(CallOp op) {
  DataHeader header;
  header.first = true;
  header.call.op = static_cast<uint8_t>(op);
  header.call.count = 1U << 20;
  header.call.type = 7;
  header.part = ParamPart{3, 70000, 2, 1ULL << 40, 4096};
  return header;
}

std::vector<uint8_t> encodedWithClock(const DataHeader& header) {
  std::vector<uint8_t> bytes(headerBytesWithClock(header.clock ? header.clock->machines.size() : 0));
  bytes.resize(encode(header, bytes));
  return bytes;
}

TEST(DataHeader, CarriesThePartOfAParameter) {
  for (const CallOp op : {CallOp::kParamSet, CallOp::kParamPush, CallOp::kParamUndo}) {
    const DataHeader header = partHeader(op), decoded = decodeDataHeader(encodedWithClock(header)).value();
    EXPECT_EQ(decoded.call.op, header.call.op);
    ASSERT_TRUE(decoded.part);
    EXPECT_EQ(decoded.part->param, 3U);
    EXPECT_EQ(decoded.part->push, 70000U);
    EXPECT_EQ(decoded.part->machine, 2U);
    EXPECT_EQ(decoded.part->offset, 1ULL << 40);
    EXPECT_EQ(decoded.part->count, 4096U);
    EXPECT_FALSE(decoded.clock);
  }
}

TEST(DataHeader, CarriesTheClockOfAnAnswerAndOfARestoredPart) {
  for (const bool restored : {false, true})
    for (const size_t machines : {0U, 1U, 5U, 1000U}) {
      DataHeader header = restored ? partHeader(CallOp::kParamRestore) : DataHeader();
      header.clock = ParamClock{1ULL << 33, 6, std::vector<uint32_t>(machines, 7)};
      for (const bool checksum : {false, true}) {
        if (checksum) header.payload = 5;
        const std::vector<uint8_t> bytes = encodedWithClock(header);
        EXPECT_LE(bytes.size(), headerBytesWithClock(machines));
        const DataHeader decoded = decodeDataHeader(bytes).value();
        ASSERT_TRUE(decoded.clock);
        EXPECT_EQ(decoded.clock->version, 1ULL << 33);
        EXPECT_EQ(decoded.clock->slowest, 6U);
        EXPECT_EQ(decoded.clock->machines, header.clock->machines);
        EXPECT_EQ(decoded.payload, header.payload);
      }
    }
}

TEST(DataHeader, RefusesPartsAndClocksAtTheWrongPlace) {
  DataHeader header = partHeader(CallOp::kParamPush);
  header.call.op = static_cast<uint8_t>(CallOp::kSum);
  EXPECT_FALSE(decodeDataHeader(encodedWithClock(header)).ok()) << "a sum for a parameter";
  header = partHeader(CallOp::kParamPush);
  header.part.reset();
  EXPECT_FALSE(decodeDataHeader(encodedWithClock(header)).ok()) << "a push without a parameter";
  header = DataHeader();
  header.clock = ParamClock{1, 1, {1, 2, 3}};
  std::vector<uint8_t> bytes = encodedWithClock(header);
  bytes.resize(bytes.size() - 8);
  const uint32_t check = crc32c(bytes.data(), bytes.size() - sizeof(uint32_t));
  std::memcpy(bytes.data() + bytes.size() - sizeof check, &check, sizeof check);
  EXPECT_FALSE(decodeDataHeader(bytes).ok()) << "a clock of fewer machines than it says";
}

TEST(DataHeader, RefusesInvalidFusedCalls) {
  const auto why = [](const CallInfo& call, size_t at = 0, uint8_t value = 6) {
    DataHeader header;
    header.first = true;
    header.call = call;
    std::vector<uint8_t> bytes = encoded(header);
    bytes[at] = value;
    const uint32_t check = crc32c(bytes.data(), bytes.size() - sizeof(uint32_t));
    std::memcpy(bytes.data() + bytes.size() - sizeof check, &check, sizeof check);
    auto decoded = decodeDataHeader(bytes);
    return decoded.ok() ? std::string() : std::string(decoded.error().message());
  };
  const CallInfo two = fusedCall({{256, 0}, {256, 1}});
  EXPECT_EQ(why(two), "");
  EXPECT_EQ(why(fusedCall({{256, 0}})), "chunk header of 1 fused calls");
  EXPECT_EQ(why(two, 26, 65), "chunk header of 65 fused calls");
  EXPECT_EQ(why(two, 26, 3), "chunk header of 37 bytes, expected 40");
  EXPECT_EQ(why(two, 27, 1), "chunk header of a fused call of 512 elements, whose calls have 513");
  EXPECT_EQ(why(two, 29, 1), "chunk header of a fused call with invalid call numbers");
  EXPECT_EQ(why(two, 32, 0), "chunk header of a fused call with invalid call numbers");
  EXPECT_EQ(why(two, 1, 1 + 2 + 16), "chunk header with invalid flags 0x13");
  EXPECT_EQ(why(two, 1, 16), "chunk header with invalid flags 0x10");
  EXPECT_EQ(why({5, 1, 7, 0, false, 0}, 1, 1 + 16), "chunk header of 0 fused calls");
}

TEST(CallInfo, FusedCallsDifferInTheirListsAndHistories) {
  const CallInfo call = fusedCall({{1, 0}, {3, 1}}), sizes = fusedCall({{2, 0}, {2, 1}}),
                 numbers = fusedCall({{1, 0}, {3, 2}}), alone{5, 4, 7, 0, false, 0};
  std::set<uint32_t> histories{historyAfter(call)};
  for (const CallInfo& other : {sizes, numbers, alone}) {
    EXPECT_FALSE(call.sameCall(other));
    EXPECT_TRUE(histories.insert(historyAfter(other)).second);
  }
  EXPECT_EQ(call.calls(), 2U);
  EXPECT_EQ(alone.calls(), 1U);
}

TEST(CallInfo, ADifferenceNamesCallsOfTheApplication) {
  using Texts = std::pair<std::string, std::string>;
  const CallInfo call = fusedCall({{10, 0}, {20, 1}, {30, 2}});
  EXPECT_EQ(describe(call), "3 fused all-reduces, #5 to #8, of 60 float32, sum");
  EXPECT_EQ(describeDifference(call, fusedCall({{10, 0}, {21, 1}, {29, 2}})),
            Texts("all-reduce #6 of 20 float32, sum", "all-reduce #6 of 21 float32, sum"));
  const Texts extra("all-reduce #8 of 30 float32, sum, in a group with #5",
                    "all-reduce #5 of 10 float32, sum, not in a group with this #8");
  EXPECT_EQ(describeDifference(call, fusedCall({{10, 0}, {20, 1}})), extra);
  EXPECT_EQ(describeDifference(fusedCall({{10, 0}, {20, 1}}), call), Texts(extra.second, extra.first));
  EXPECT_EQ(describeDifference(call, fusedCall({{10, 0}, {20, 1}, {30, 3}})), extra);
  EXPECT_EQ(describeDifference({5, 10, 7, 0, false, 0}, call),
            Texts("all-reduce #5 of 10 float32, sum, not in a group with this #6",
                  "all-reduce #6 of 20 float32, sum, in a group with #5"));
  CallInfo type = call;
  type.type = 9;
  EXPECT_EQ(describeDifference(call, type),
            Texts("all-reduce #5 of 10 float32, sum", "all-reduce #5 of 10 bfloat16, sum"));
}

TEST(CallInfo, OnlyScalarsMayDiffer) {
  const CallInfo call{1, 2, 3, 5, true, 4};
  CallInfo other = call;
  other.scalar = 5;
  EXPECT_TRUE(call.sameCall(other));
  for (auto change : std::vector<void (*)(CallInfo&)>{[](CallInfo& c) { ++c.number; }, [](CallInfo& c) { ++c.count; },
                                                      [](CallInfo& c) { ++c.type; }, [](CallInfo& c) { --c.op; }}) {
    other = call;
    change(other);
    EXPECT_FALSE(call.sameCall(other));
  }
}

}  // namespace
}  // namespace bps
