#include "src/wire/data_header.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace bps {
namespace {

DataHeader sample() {
  DataHeader header;
  header.sequence = 0x0102030405060708;
  header.bytes = 0x11223344;
  header.first = true;
  header.call = {0xa1a2a3a4a5a6a7a8, 0xb1b2b3b4b5b6b7b8, 9, 5, true, 0xc1c2c3c4c5c6c7c8};
  return header;
}

TEST(DataHeader, CarriesAllFieldsOfAFirstChunk) {
  DataHeaderBytes bytes;
  const size_t size = encode(sample(), bytes);
  ASSERT_EQ(size, kDataHeaderBytes);
  auto decoded = decodeDataHeader({bytes.data(), size});
  ASSERT_TRUE(decoded.ok()) << decoded.error().message();
  const DataHeader header = std::move(decoded).value();
  EXPECT_EQ(header.sequence, sample().sequence);
  EXPECT_EQ(header.bytes, sample().bytes);
  EXPECT_TRUE(header.first);
  EXPECT_TRUE(header.call.sameCall(sample().call));
  EXPECT_TRUE(header.call.hasScalar);
  EXPECT_EQ(header.call.scalar, sample().call.scalar);
}

TEST(DataHeader, LaterChunksAreShort) {
  DataHeader header = sample();
  header.first = false;
  DataHeaderBytes bytes;
  const size_t size = encode(header, bytes);
  ASSERT_EQ(size, kDataShortHeaderBytes);
  const DataHeader decoded = decodeDataHeader({bytes.data(), size}).value();
  EXPECT_FALSE(decoded.first);
  EXPECT_EQ(decoded.call.number, header.call.number);
  EXPECT_EQ(decoded.sequence, header.sequence);
}

TEST(DataHeader, RefusesWhatItDidNotMake) {
  DataHeaderBytes good;
  const size_t size = encode(sample(), good);
  for (size_t cut = 0; cut < size; ++cut) EXPECT_FALSE(decodeDataHeader({good.data(), cut}).ok()) << cut;
  const auto changed = [&](size_t at, uint8_t value) {
    DataHeaderBytes bytes = good;
    bytes[at] = value;
    return decodeDataHeader({bytes.data(), size});
  };
  EXPECT_FALSE(changed(12, 9).ok()) << "version";
  EXPECT_FALSE(changed(40, 12).ok()) << "type";
  EXPECT_FALSE(changed(41, 6).ok()) << "operation";
  EXPECT_FALSE(changed(13, 0).ok()) << "a long header that is not a first one";
}

TEST(DataHeader, DescribesTheCallForPeople) {
  EXPECT_EQ(describe({7, 1000, 7, 0, false, 0}), "all-reduce #7 of 1000 float32, sum");
  EXPECT_EQ(describe({0, 1, 9, 4, false, 0}), "all-reduce #0 of 1 bfloat16, avg");
}

TEST(CallInfo, ScalarsMayDifferTheRestMayNot) {
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
