#include "src/plan/fusion.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "src/plan/constants.h"
#include "src/wire/fused_calls.h"

namespace bps {
namespace {

using Issues = std::vector<std::vector<size_t>>;

std::array<char, 1 << 20> memory;
BufferRange range(size_t from, size_t bytes) { return {&memory[from], bytes}; }

// Makes lists of calls whose buffers do not overlap, unless the test sets them.
class FuseCalls : public testing::Test {
 protected:
  GroupCall& add(uint8_t type = 7, size_t comm = 0, size_t bytes = 64) {
    const size_t at = 128 * calls_.size();
    calls_.push_back({&comms_[comm], numbers_[comm]++, bytes, type, 0, true, {range(at, 64), range(at + 64, 64)}});
    return calls_.back();
  }
  std::array<int, 3> comms_{};
  std::array<uint64_t, 3> numbers_{100, 0, 0};
  std::vector<GroupCall> calls_;
};

TEST_F(FuseCalls, SmallCallsOfACommunicatorTypeAndOperationFuse) {
  for (int i = 0; i < 2; ++i) {
    add(7, 0);
    add(9, 0);
    add(7, 1);
    add(7, 0).op = 2;
  }
  EXPECT_EQ(fuseCalls(calls_), (Issues{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
}

TEST_F(FuseCalls, LargeCallsAndCallsThatMayNotFuseStayAlone) {
  add();
  add(7, 0, constants::kMaxFusedBytes + 1);
  add().mayFuse = false;
  add(7, 0, constants::kMaxFusedBytes);
  add(7, 0, 0);
  EXPECT_EQ(fuseCalls(calls_), (Issues{{0, 3, 4}, {1}, {2}}));
}

TEST_F(FuseCalls, AFusedCallHasALimitedNumberOfCalls) {
  for (size_t i = 0; i < 2 * FusedCalls::kMaxCalls + 1; ++i) add();
  const Issues issues = fuseCalls(calls_);
  ASSERT_EQ(issues.size(), 3U);
  EXPECT_EQ(issues[0].size(), FusedCalls::kMaxCalls);
  EXPECT_EQ(issues[1].size(), FusedCalls::kMaxCalls);
}

TEST_F(FuseCalls, TheDistanceOfTheCallsFitsTheHeader) {
  add(9).number = 0;
  add(9).number = 255;
  add(9).number = 511;
  EXPECT_EQ(fuseCalls(calls_), (Issues{{0, 1}, {2}}));
}

TEST_F(FuseCalls, ACallThatReadsAnEarlierSumStartsANewFusedCall) {
  add();
  add().buffers.reads = calls_[0].buffers.writes;
  add();
  EXPECT_EQ(fuseCalls(calls_), (Issues{{0}, {1, 2}}));
}

TEST_F(FuseCalls, CallsThatOnlyWriteTheSameBufferFuse) {
  add();
  add().buffers.writes = calls_[0].buffers.writes;
  add().buffers.writes = calls_[0].buffers.reads;
  EXPECT_EQ(fuseCalls(calls_), (Issues{{0, 1, 2}}));
}

TEST_F(FuseCalls, ACallIsNotMovedAheadOfACallThatItConflictsWith) {
  for (const bool readsSum : {true, false}) {
    calls_.clear();
    add(7, 0);
    add(7, 1).buffers.reads = calls_[0].buffers.writes;  // a call of another communicator
    GroupCall& last = add(7, 0);
    (readsSum ? last.buffers.reads : last.buffers.writes) =
        readsSum ? calls_[1].buffers.writes : calls_[1].buffers.reads;
    EXPECT_EQ(fuseCalls(calls_), (Issues{{0}, {1}, {2}}));
  }
}

using Cells = std::vector<uint64_t>;

// Carries out the calls of each list together, as a fused call does: all reads come before all writes.
Cells carryOut(const std::vector<GroupCall>& calls, const Issues& issues) {
  Cells cells(64);
  for (size_t i = 0; i < cells.size(); ++i) cells[i] = i;
  const auto at = [](const BufferRange& buffer) { return static_cast<const char*>(buffer.begin) - memory.data(); };
  for (const std::vector<size_t>& together : issues) {
    const Cells before = cells;
    for (const size_t index : together)
      for (size_t b = 0; b < calls[index].buffers.reads.bytes; ++b)
        cells[static_cast<size_t>(at(calls[index].buffers.writes)) + b] =
            before[static_cast<size_t>(at(calls[index].buffers.reads)) + b] * 31 + index;
  }
  return cells;
}

TEST_F(FuseCalls, RandomGroupsGiveTheResultsOfSeparateCalls) {
  std::mt19937_64 random(1);
  size_t fused = 0;
  for (int round = 0; round < 3000; ++round) {
    calls_.clear();
    Issues separate;
    for (size_t i = 0; i < 12; ++i) {
      const size_t bytes = random() % 6;
      GroupCall& call = add(static_cast<uint8_t>(random() % 2), random() % 2, bytes);
      call.buffers.reads = range(random() % 58, bytes);
      call.buffers.writes = range(random() % 58, bytes);
      if (random() % 3 == 0) call.buffers.writes = call.buffers.reads;
      call.mayFuse = random() % 8 != 0;
      separate.push_back({i});
    }
    const Issues issues = fuseCalls(calls_);
    ASSERT_EQ(carryOut(calls_, issues), carryOut(calls_, separate)) << "round " << round;
    std::set<size_t> seen;
    for (const auto& together : issues) {
      ASSERT_TRUE(seen.empty() || !seen.contains(together.front()));
      for (const size_t index : together) ASSERT_TRUE(seen.insert(index).second);
      fused += together.size() - 1;
    }
    ASSERT_EQ(seen.size(), calls_.size());
  }
  EXPECT_GT(fused, 3000U);
}

}  // namespace
}  // namespace bps
