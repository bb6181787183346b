#include "perf/delay_line/delay_queue.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace bps::perf {
namespace {

using Time = std::chrono::steady_clock::time_point;

void add(DelayQueue& queue, size_t bytes, uint8_t value) {
  const std::span<uint8_t> room = queue.room();
  ASSERT_EQ(room.size(), kMaxFrame);
  std::fill_n(room.begin(), bytes, value);
  queue.push(bytes, value, Time() + std::chrono::nanoseconds(value));
}

void expectFront(const DelayQueue& queue, size_t bytes, uint8_t value) {
  const Frame& frame = queue.front();
  ASSERT_EQ(frame.bytes.size(), bytes);
  EXPECT_EQ(frame.link, value);
  EXPECT_EQ(frame.due, Time() + std::chrono::nanoseconds(value));
  EXPECT_TRUE(std::all_of(frame.bytes.begin(), frame.bytes.end(), [&](uint8_t byte) { return byte == value; }));
}

TEST(DelayQueue, FramesLeaveUnchangedInTheirOrder) {
  DelayQueue queue(8 * DelayQueue::kBlock);
  // The queue is never empty, so its blocks are used in turn.
  for (int i = 0; i < 1000; ++i) {
    add(queue, i % 2 == 0 ? kMaxFrame : 60, static_cast<uint8_t>(i));
    if (i < 30) continue;
    expectFront(queue, i % 2 == 0 ? kMaxFrame : 60, static_cast<uint8_t>(i - 30));
    queue.pop();
  }
  for (int i = 970; i < 1000; ++i) {
    expectFront(queue, i % 2 == 0 ? kMaxFrame : 60, static_cast<uint8_t>(i));
    queue.pop();
  }
  EXPECT_TRUE(queue.empty());
}

TEST(DelayQueue, FullQueueHasNoRoomUntilABlockIsFree) {
  DelayQueue queue(2 * DelayQueue::kBlock);
  const size_t perBlock = DelayQueue::kBlock / kMaxFrame;
  for (size_t i = 0; i < 2 * perBlock; ++i) add(queue, kMaxFrame, 1);
  EXPECT_TRUE(queue.room().empty());
  for (size_t i = 0; i < perBlock; ++i) {
    EXPECT_TRUE(queue.room().empty());
    queue.pop();
  }
  EXPECT_EQ(queue.room().size(), kMaxFrame);
}

TEST(DelayQueue, RoomWithoutPushKeepsTheFrames) {
  DelayQueue queue(2 * DelayQueue::kBlock);
  for (uint8_t i = 0; i < DelayQueue::kBlock / kMaxFrame; ++i) add(queue, kMaxFrame, i);
  EXPECT_FALSE(queue.room().empty());  // begins the second block
  for (uint8_t i = 0; i < DelayQueue::kBlock / kMaxFrame; ++i) {
    expectFront(queue, kMaxFrame, i);
    queue.pop();
  }
  EXPECT_TRUE(queue.empty());
  add(queue, 60, 77);
  expectFront(queue, 60, 77);
}

}  // namespace
}  // namespace bps::perf
