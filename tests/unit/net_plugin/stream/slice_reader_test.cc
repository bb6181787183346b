// Tests how many bytes a SliceReader reads ahead of its current slice.
#include "net_plugin/stream/slice_reader.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>

#include "src/base/io/fd.h"
#include "tests/unit/net/net_fixture.h"

namespace bps::plugin::stream {
namespace {

using test::randomBytes;
using test::valueOf;

constexpr size_t kLarge = 40000, kMost = 1U << 20;

class SliceReaderTest : public ::testing::Test {
 protected:
  SliceReaderTest() {
    std::array<int, 2> both{-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both.data()), 0);
    ours_ = UniqueFd(both[0]);
    theirs_ = UniqueFd(both[1]);
  }

  // Sends messages of these sizes in a single write.
  void arrive(const std::vector<size_t>& sizes) {
    std::vector<uint8_t> all;
    for (const size_t bytes : sizes) {
      const FrameBytes frame = encodeFrame({.number = came_, .messageBytes = bytes, .offset = 0, .bytes = bytes});
      all.insert(all.end(), frame.begin(), frame.begin() + kFrameBytes);
      const std::vector<uint8_t> payload = randomBytes(bytes, static_cast<uint32_t>(came_++));
      all.insert(all.end(), payload.begin(), payload.end());
    }
    ASSERT_EQ(::send(theirs_.get(), all.data(), all.size(), MSG_NOSIGNAL), static_cast<ssize_t>(all.size()));
  }
  // Takes all messages that have arrived. Returns the number of bytes that each system call read.
  std::vector<size_t> takeAll() {
    std::vector<size_t> reads;
    while (taken_ < came_) {
      const SliceReader::Read read = reader_.read(ours_.get(), kMost);
      EXPECT_EQ(read.error, 0);
      EXPECT_GT(read.bytes, 0U);
      if (read.bytes == 0) break;
      reads.push_back(read.bytes);
      while (takeOne()) {
      }
    }
    return reads;
  }

 private:
  // Takes the next message and checks its bytes. Returns false if the rest of the message is still in the socket.
  bool takeOne() {
    if (!reader_.hasSlice()) {
      if (valueOf(reader_.takeFrame(taken_)) == Progress::kPending) return false;
      place_.assign(reader_.slice().bytes, 0);
      reader_.setDestination(place_.data());
    }
    if (reader_.consumeReadAhead() == Progress::kPending) return false;
    EXPECT_EQ(place_, randomBytes(place_.size(), static_cast<uint32_t>(taken_)));
    ++taken_;
    return true;
  }

  UniqueFd ours_, theirs_;
  SliceReader reader_;
  uint64_t came_ = 0, taken_ = 0;
  std::vector<uint8_t> place_;
};

TEST_F(SliceReaderTest, SmallMessagesShareOneRead) {
  arrive({22, 4000, 4, 4000});
  EXPECT_EQ(takeAll(), std::vector<size_t>{22 + 4000 + 4 + 4000 + 4 * kFrameBytes});
}

TEST_F(SliceReaderTest, SliceAfterALargeOneIsReadDirectly) {
  arrive({22, kLarge});
  EXPECT_GT(takeAll().front(), 16000U) << "not known yet that it is large";
  arrive({4, kLarge});
  const std::vector<size_t> reads = takeAll();
  EXPECT_EQ(reads.size(), 2U);
  EXPECT_LE(reads.front(), 64U) << "a copy of what is read ahead would follow";
  arrive({4});
  takeAll();
  arrive({kLarge});
  EXPECT_LE(takeAll().front(), 64U) << "the previous slice does not matter";
}

TEST_F(SliceReaderTest, ReadAheadResumesForSmallMessagesAfterALargeOne) {
  arrive({4, kLarge});
  takeAll();
  arrive({4, 1000});
  EXPECT_EQ(takeAll().size(), 2U);
  arrive({4, 1000});
  EXPECT_EQ(takeAll().size(), 1U);
}

}  // namespace
}  // namespace bps::plugin::stream
