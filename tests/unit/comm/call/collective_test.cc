#include "src/comm/call/collective.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace bps {
namespace {

TEST(MakeChunks, CoversTheBufferOnceInRoundOrder) {
  for (const size_t count : {1UL, 2UL, 7UL, 1000UL, 65537UL, 1UL << 20}) {
    Cutter cutter({3, 3, 0, 5}, {.maxChunkBytes = 64 << 10, .targetChunkBytes = 32 << 10, .singleOwnerBytes = 0});
    const Cut cut = cutter.next(count, 4);
    const auto chunks = makeChunks(cut, 4);
    std::vector<std::pair<size_t, size_t>> ranges;
    for (const ChunkRef& chunk : chunks) {
      EXPECT_LE(chunk.bytes, 64U << 10);
      if (chunk.bytes > 0) ranges.emplace_back(chunk.offset, chunk.bytes);
    }
    std::sort(ranges.begin(), ranges.end());
    size_t at = 0;
    for (const auto& [offset, bytes] : ranges) {
      EXPECT_EQ(offset, at);
      at += bytes;
    }
    EXPECT_EQ(at, count * 4);
    for (uint32_t owner = 0; owner < 4; ++owner) {
      const auto firsts = std::count_if(chunks.begin(), chunks.end(),
                                        [&](const ChunkRef& c) { return c.owner == owner && c.round == 0; });
      const auto all = std::count_if(chunks.begin(), chunks.end(), [&](const ChunkRef& c) { return c.owner == owner; });
      EXPECT_EQ(firsts, all > 0 ? 1 : 0);
    }
  }
}

TEST(MakeChunks, RoundsFollowEachOtherAfterTheCheckersFirstChunk) {
  Cutter cutter({1, 6}, {.targetChunkBytes = 16U << 10, .singleOwnerBytes = 0});
  const Cut cut = cutter.next((16U << 10) * 7, 1);
  ASSERT_EQ(cut.checker, 1U);
  ASSERT_EQ(cut.chunks, (std::vector<size_t>{6, 6}));
  std::vector<uint32_t> owners;
  for (const ChunkRef& chunk : makeChunks(cut, 1)) owners.push_back(chunk.owner);
  EXPECT_EQ(owners, (std::vector<uint32_t>{1, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1}));
}

TEST(MakeChunks, CoverSharesWithFewerChunksThanRounds) {
  Cutter cutter({1, 20000}, {.targetChunkBytes = 16U << 10, .singleOwnerBytes = 0});
  const Cut cut = cutter.next(8U << 20, 1);
  ASSERT_LT(cut.chunks[0], cut.rounds);
  std::vector<size_t> seen(2), offset{cut.share[0].offset, cut.share[1].offset};
  for (const ChunkRef& chunk : makeChunks(cut, 1)) {
    EXPECT_EQ(chunk.offset, offset[chunk.owner]);
    EXPECT_EQ(chunk.round, seen[chunk.owner]);
    offset[chunk.owner] += chunk.bytes;
    ++seen[chunk.owner];
  }
  EXPECT_EQ(seen, cut.chunks);
}

TEST(MakeChunks, AnEmptyCallReachesItsChecker) {
  Cutter cutter({1, 1}, {});
  const auto chunks = makeChunks(cutter.next(0, 4), 4);
  ASSERT_EQ(chunks.size(), 1U);
  EXPECT_EQ(chunks[0].round, 0U);
  EXPECT_EQ(chunks[0].bytes, 0U);
}

TEST(MakeChunks, CheckerGetsAChunkOfEveryCall) {
  Cutter cutter({7, 1, 2}, {});
  for (size_t count = 0; count < 3000; ++count) {
    const Cut cut = cutter.next(count, 2);
    const auto chunks = makeChunks(cut, 2);
    EXPECT_TRUE(std::any_of(chunks.begin(), chunks.end(), [&](const ChunkRef& c) { return c.owner == cut.checker; }));
  }
}

TEST(MakeChunks, LargeExchangePathCallsHaveSeveralPieces) {
  Cutter cutter({1, 1}, {.exchangeBytes = 4U << 20, .exchangeChunkBytes = 256U << 10});
  for (const auto& [bytes, pieces] : {std::pair{256UL << 10, 1UL}, {512UL << 10, 2UL}, {1UL << 20, 4UL}}) {
    const auto chunks = makeChunks(cutter.next(bytes / 4, 4), 4);
    ASSERT_EQ(chunks.size(), pieces);
    size_t end = 0;
    for (const ChunkRef& chunk : chunks) {
      EXPECT_TRUE(chunk.usesExchangePath());
      EXPECT_EQ(chunk.round == 0, end == 0);
      EXPECT_EQ(chunk.offset, end);
      EXPECT_LE(chunk.bytes, 256U << 10);
      end += chunk.bytes;
    }
    EXPECT_EQ(end, bytes);
  }
}

TEST(MakeChunks, SmallExchangePathCallsAreOneChunk) {
  Cutter cutter({0, 0, 0, 1, 1, 1}, {.exchangeBytes = 1024, .exchangeChunkBytes = 4096});
  for (const size_t count : {0UL, 1UL, 256UL, 257UL}) {
    const Cut cut = cutter.next(count, 4);
    const auto chunks = makeChunks(cut, 4);
    EXPECT_EQ(cut.usesExchangePath, count <= 256) << count;
    if (!cut.usesExchangePath) continue;
    ASSERT_EQ(chunks.size(), 1U) << count;
    EXPECT_TRUE(chunks[0].usesExchangePath());
    EXPECT_EQ(chunks[0].round, 0U);
    EXPECT_EQ(chunks[0].bytes, count * 4);
  }
}

Roster oneRank() {
  Roster roster;
  roster.ranks.resize(1);
  roster.machines = {{{0}, 0}};
  return roster;
}

// A call of `count` floats in GPU memory, of which the NIC reads the second chunk directly.
Collective gpuCall(size_t count) {
  Collective call;
  call.call.count = count;
  call.call.type = 7;  // float32
  call.stageSend = call.stageRecv = true;
  call.chunks = {{0, 0, count, 0, false}, {1, count, count * 3, 0, true}};
  return call;
}

TEST(CountCalls, ACompletedCallCountsItsBytesAndItsTime) {
  CommCounters counters(oneRank(), 0);
  Collective call = gpuCall(1000);
  countBegin(call, &counters);
  EXPECT_EQ(counters.calls.begun.value(), 1U);
  EXPECT_EQ(counters.calls.completed.value(), 0U);
  call.submittedAt -= std::chrono::seconds(2);
  countEnd(call, true);
  EXPECT_EQ(counters.calls.completed.value(), 1U);
  EXPECT_EQ(counters.calls.failed.value(), 0U);
  EXPECT_EQ(counters.calls.bytes.value(), 4000U);
  EXPECT_EQ(counters.calls.bytesToHost.value(), 1000U);
  EXPECT_EQ(counters.calls.bytesToDevice.value(), 1000U);
  EXPECT_NEAR(static_cast<double>(counters.calls.nanoseconds.value()), 2e9, 1e9);
}

TEST(CountCalls, AFailedCallCountsNoBytes) {
  CommCounters counters(oneRank(), 0);
  Collective call = gpuCall(1000);
  countBegin(call, &counters);
  countEnd(call, false);
  EXPECT_EQ(counters.calls.failed.value(), 1U);
  EXPECT_EQ(counters.calls.completed.value(), 0U);
  EXPECT_EQ(counters.calls.bytes.value() + counters.calls.bytesToHost.value(), 0U);
}

TEST(CountCalls, AFusedCallCountsAsTheCallsInIt) {
  CommCounters counters(oneRank(), 0);
  Collective call;
  for (int i = 0; i < 3; ++i) call.call.fused.add({10, 1});
  countBegin(call, &counters);
  countEnd(call, true);
  EXPECT_EQ(counters.calls.begun.value(), 3U);
  EXPECT_EQ(counters.calls.completed.value(), 3U);
}

TEST(CountCalls, WithoutCountersNothingIsCounted) {
  Collective call = gpuCall(1000);
  countBegin(call, nullptr);
  countEnd(call, true);
  EXPECT_EQ(call.submittedAt, std::chrono::steady_clock::time_point());
}

}  // namespace
}  // namespace bps
