#include "src/base/io/wire_io.h"

#include <gtest/gtest.h>

namespace bps {
namespace {

enum class Colour : uint16_t { kRed = 0x1234 };

Blob sample() {
  WireWriter writer;
  writer.put(uint8_t{7})
      .put(uint32_t{0xdeadbeef})
      .put(int64_t{-2})
      .put(Colour::kRed)
      .put(1.5)
      .put("text")
      .put(Blob{1, 2});
  return std::move(writer).take();
}

TEST(WireIoTest, ReadsBackWhatWasWritten) {
  const Blob bytes = sample();
  WireReader reader(bytes);
  EXPECT_EQ(reader.get<uint8_t>(), 7);
  EXPECT_EQ(reader.get<uint32_t>(), 0xdeadbeef);
  EXPECT_EQ(reader.get<int64_t>(), -2);
  EXPECT_EQ(reader.get<Colour>(), Colour::kRed);
  EXPECT_EQ(reader.getDouble(), 1.5);
  EXPECT_EQ(reader.getString(), "text");
  EXPECT_EQ(reader.getBlob(), (Blob{1, 2}));
  EXPECT_TRUE(reader.finish("sample").ok());
}

TEST(WireIoTest, IsLittleEndian) {
  EXPECT_EQ(WireWriter().put(uint32_t{0x01020304}).bytes(), (Blob{4, 3, 2, 1}));
  EXPECT_EQ(WireWriter().put("ab").bytes(), (Blob{2, 0, 0, 0, 'a', 'b'}));
}

// The message is cut at every byte. WireReader must report that the message is truncated, and must not read past its
// end.
TEST(WireIoTest, EveryTruncationIsDetected) {
  const Blob whole = sample();
  for (size_t length = 0; length < whole.size(); ++length) {
    const Blob part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    WireReader reader(part);
    reader.get<uint8_t>();
    reader.get<uint32_t>();
    reader.get<int64_t>();
    reader.get<Colour>();
    reader.getDouble();
    reader.getString();
    reader.getBlob();
    const Status status = reader.finish("sample");
    ASSERT_FALSE(status.ok()) << length;
    EXPECT_TRUE(reader.truncated());
    EXPECT_STREQ(status.message(), "sample: message is truncated");
  }
}

TEST(WireIoTest, ReadsPastTheEndGiveZeros) {
  WireReader reader({});
  EXPECT_EQ(reader.get<uint64_t>(), 0U);
  EXPECT_EQ(reader.getString(), "");
  EXPECT_EQ(reader.getDouble(), 0);
  EXPECT_TRUE(reader.truncated());
}

TEST(WireIoTest, TrailingBytesAreAnError) {
  const Blob bytes{1, 2};
  WireReader reader(bytes);
  reader.get<uint8_t>();
  EXPECT_EQ(reader.left(), 1U);
  EXPECT_STREQ(reader.finish("x").message(), "x: message has trailing bytes");
}

TEST(WireIoTest, LengthsBeyondTheMessageAllocateNothing) {
  const Blob bytes = WireWriter().put(uint32_t{0xffffffff}).bytes();
  WireReader blob(bytes), count(bytes);
  EXPECT_TRUE(blob.getBlob().empty());
  EXPECT_TRUE(blob.truncated());
  EXPECT_EQ(count.getCount(4), 0U);
  EXPECT_TRUE(count.truncated());
}

TEST(WireIoTest, CountsThatFitAreAccepted) {
  Blob bytes = WireWriter().put(uint32_t{3}).bytes();
  bytes.resize(4 + 12);
  WireReader fits(bytes), doesNot(bytes);
  EXPECT_EQ(fits.getCount(4), 3U);
  EXPECT_EQ(doesNot.getCount(5), 0U);
  EXPECT_TRUE(doesNot.truncated());
}

}  // namespace
}  // namespace bps
