#include "src/wire/frame.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace bps {
namespace {

Blob frameBytes(const FrameHeader& header, const Blob& payload) {
  const auto bytes = encode(header);
  Blob all(bytes.begin(), bytes.end());
  all.insert(all.end(), payload.begin(), payload.end());
  return all;
}

// Gives the stream to the reader in pieces of `piece` bytes. Returns the frames that the reader finds.
Result<std::vector<Frame>> feed(FrameReader& reader, const Blob& stream, size_t piece) {
  std::vector<Frame> frames;
  for (size_t at = 0; at < stream.size();) {
    const auto room = reader.room();
    const size_t count = std::min({room.size(), piece, stream.size() - at});
    std::copy_n(stream.begin() + static_cast<std::ptrdiff_t>(at), count, room.begin());
    at += count;
    std::optional<Frame> frame = BPS_TRY(reader.filled(count));
    if (frame) frames.push_back(std::move(*frame));
  }
  return frames;
}

TEST(Frame, AnyFragmentationGivesTheSameFrames) {
  Blob stream;
  for (uint32_t i = 0; i < 5; ++i) {
    const Blob bytes = frameBytes({i * 100, MessageType::kJoin, 1, 77, i}, Blob(i * 100, static_cast<uint8_t>(i)));
    stream.insert(stream.end(), bytes.begin(), bytes.end());
  }
  for (size_t piece : {1, 3, 19, 20, 21, 10000}) {
    FrameReader reader;
    Result<std::vector<Frame>> got = feed(reader, stream, piece);
    ASSERT_TRUE(got.ok());
    const std::vector<Frame> frames = std::move(got).value();
    ASSERT_EQ(frames.size(), 5U);
    EXPECT_TRUE(reader.empty());
    for (uint32_t i = 0; i < 5; ++i) {
      EXPECT_EQ(frames[i].header.sequence, i);
      EXPECT_EQ(frames[i].header.job, 77U);
      EXPECT_EQ(frames[i].payload, Blob(i * 100, static_cast<uint8_t>(i)));
    }
  }
}

TEST(Frame, UnauthenticatedLengthIsLimited) {
  FrameReader reader;
  Result<std::vector<Frame>> got =
      feed(reader, frameBytes({kMaxUnauthenticatedFrameBytes + 1, MessageType::kHello, 1, 0, 0}, {}), 20);
  ASSERT_FALSE(got.ok());
  EXPECT_NE(std::string(got.error().message()).find("frame of 1025 bytes exceeds the limit of 1024"),
            std::string::npos);
}

TEST(Frame, MemoryGrowsOnlyWithReceivedBytes) {
  FrameReader reader;
  reader.setLimit(kMaxFrameBytes);
  ASSERT_TRUE(feed(reader, frameBytes({kMaxFrameBytes, MessageType::kRoster, 1, 0, 0}, Blob(10)), 7).ok());
  EXPECT_LE(reader.room().size(), 1U << 20);
}

}  // namespace
}  // namespace bps
