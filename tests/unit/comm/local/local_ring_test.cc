// Tests LocalRing. In the memory that the ranks of a machine share, no two counters or areas may overlap, and all ranks
// must see the same values.
#include "src/comm/local/local_ring.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace bps::test {
namespace {

constexpr LocalRingShape kShape{.ranks = 3, .slots = 4, .slotBytes = 4096, .stages = 3, .counters = 5};

// A ring that two ranks have mapped.
class LocalRingTest : public testing::Test {
 protected:
  static Result<LocalRing> attach(const LocalRingShape& shape, int fd) {
    return LocalRing::attach(shape, UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 0)));
  }
  LocalRing leader_ = std::move(LocalRing::create(kShape)).value();
  LocalRing other_ = std::move(attach(kShape, leader_.fd())).value();
};

TEST_F(LocalRingTest, EveryCounterStartsAtZeroAndIsSeenByAllRanks) {
  std::vector<std::atomic<uint64_t>*> written, read;
  const auto collect = [](const LocalRing& ring, std::vector<std::atomic<uint64_t>*>& counters) {
    for (uint32_t rank = 0; rank < kShape.ranks; ++rank) {
      LocalRing::RankState& state = ring.rankState(rank);
      counters.insert(counters.end(), {&state.submitted, &state.awaited, &state.published});
      for (size_t stage = 0; stage < kShape.stages; ++stage) counters.push_back(&ring.done(rank, stage));
      for (size_t i = 0; i < kShape.counters; ++i) counters.push_back(ring.counters(rank) + i);
    }
  };
  collect(leader_, written);
  collect(other_, read);
  for (size_t i = 0; i < written.size(); ++i) {
    EXPECT_EQ(written[i]->load(), 0U);
    written[i]->store(i + 1);
  }
  for (size_t i = 0; i < read.size(); ++i) EXPECT_EQ(read[i]->load(), i + 1) << "two counters share a place";
}

TEST_F(LocalRingTest, NoTwoRanksWriteTheSameCacheLines) {
  const auto line = [](const void* at) { return reinterpret_cast<uintptr_t>(at) / kFalseSharingBytes; };
  std::vector<std::pair<uintptr_t, uint32_t>> lines;  // each cache line with a rank that writes to it
  for (uint32_t rank = 0; rank < kShape.ranks; ++rank) {
    LocalRing::RankState& state = leader_.rankState(rank);
    for (const void* at : {static_cast<const void*>(&state.submitted), static_cast<const void*>(&state.asleep),
                           static_cast<const void*>(leader_.counters(rank))})
      lines.emplace_back(line(at), rank);
    for (size_t stage = 0; stage < kShape.stages; ++stage) lines.emplace_back(line(&leader_.done(rank, stage)), rank);
    for (uint64_t chunk = 0; chunk < kShape.slots; ++chunk)
      lines.emplace_back(line(&leader_.chunkInfo(chunk, rank)), rank);
  }
  for (const auto& [a, rankA] : lines)
    for (const auto& [b, rankB] : lines) EXPECT_TRUE(a != b || rankA == rankB) << "ranks " << rankA << ", " << rankB;
}

TEST_F(LocalRingTest, AreasOfAllSlotsAreDisjointAndInsideTheMemory) {
  std::vector<uint8_t*> areas;
  for (uint64_t chunk = 0; chunk < kShape.slots; ++chunk)
    for (size_t rank = 0; rank <= kShape.ranks; ++rank) {
      areas.push_back(leader_.area(chunk, rank));
      std::fill_n(areas.back(), kShape.slotBytes, static_cast<uint8_t>(areas.size()));  // crashes if out of bounds
    }
  EXPECT_EQ(leader_.sum(1), leader_.area(1, kShape.ranks));
  std::vector<uint8_t*> sorted = areas;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 1; i < sorted.size(); ++i)
    EXPECT_GE(sorted[i] - sorted[i - 1], static_cast<ptrdiff_t>(kShape.slotBytes));
  for (size_t i = 0; i < areas.size(); ++i) {
    const size_t rank = i % (kShape.ranks + 1);
    EXPECT_EQ(other_.area(i / (kShape.ranks + 1), rank)[kShape.slotBytes - 1], static_cast<uint8_t>(i + 1));
  }
  for (uint32_t rank = 0; rank < kShape.ranks; ++rank) EXPECT_EQ(leader_.rankState(rank).left.load(), 0U);
}

TEST_F(LocalRingTest, AChunkUsesTheSlotOfTheChunkOneRingBefore) {
  for (const uint64_t chunk : {0U, 3U}) {
    EXPECT_EQ(leader_.area(chunk, 1), leader_.area(chunk + kShape.slots, 1));
    EXPECT_EQ(&leader_.chunkInfo(chunk, 1), &leader_.chunkInfo(chunk + kShape.slots, 1));
    EXPECT_NE(leader_.area(chunk, 1), leader_.area(chunk + 1, 1));
  }
}

TEST_F(LocalRingTest, DoneByAllIsTheLeastOfTheRanks) {
  const size_t stage = kShape.stages - 1;
  for (const auto& [rank, done] : {std::pair{0U, 5U}, {1U, 9U}, {2U, 7U}}) leader_.done(rank, stage).store(done);
  EXPECT_EQ(other_.doneByAll(stage), 5U);
  EXPECT_EQ(other_.doneByAll(stage, 0), 7U);
  EXPECT_EQ(other_.doneByAll(0), 0U) << "another stage";
  const LocalRing::DoneRange others = other_.doneRange(stage, 1);
  EXPECT_EQ(others.least, 5U);
  EXPECT_EQ(others.most, 7U);
  EXPECT_EQ(others.furthest, 2U);
}

TEST_F(LocalRingTest, ARankWithAnotherShapeCannotAttach) {
  LocalRingShape shape = kShape;
  shape.slots += 1;
  const Result<LocalRing> ring = attach(shape, leader_.fd());
  ASSERT_FALSE(ring.ok());
  EXPECT_NE(std::string(ring.error().message()).find("the leader's ring has"), std::string::npos);
}

TEST_F(LocalRingTest, TheMemoryStaysWhileOneRankMapsIt) {
  leader_.rankState(0).submitted.store(7);
  { const LocalRing gone = std::move(leader_); }
  EXPECT_EQ(other_.rankState(0).submitted.load(), 7U);
}

}  // namespace
}  // namespace bps::test
