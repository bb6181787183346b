#include "src/plan/cutter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

namespace bps {
namespace {

using Weights = std::vector<uint64_t>;

constexpr CutLimits kSmall{
    .maxChunkBytes = 4096, .targetChunkBytes = 1024, .chunkCostBytes = 128, .singleOwnerBytes = 512};

// Checks the chunks of a cut. The chunks must cover every element once and in order. No chunk may be empty or too
// large, and every chunk must begin at a multiple of the quantum. The sizes of an owner's chunks must differ by at most
// one quantum.
void checkCut(const Cut& cut, size_t count, size_t elementBytes, const CutLimits& limits) {
  size_t next = 0;
  for (size_t owner = 0; owner < cut.share.size(); ++owner) {
    ASSERT_EQ(cut.share[owner].offset, next);
    size_t least = count, most = 0;
    ASSERT_LE(cut.chunks[owner], cut.rounds);
    for (size_t r = 0; r < cut.chunks[owner]; ++r) {
      const ChunkRange chunk = cut.chunk(owner, r);
      ASSERT_EQ(chunk.offset, next);
      ASSERT_GT(chunk.count, 0U);
      ASSERT_LE(chunk.count * elementBytes, limits.maxChunkBytes);
      ASSERT_EQ(chunk.offset % cut.quantum, 0U);
      least = std::min(least, chunk.count);
      most = std::max(most, chunk.count);
      next += chunk.count;
    }
    if (most > 0) {
      ASSERT_LE(most - least, cut.quantum);
    }
    ASSERT_EQ(cut.share[owner].offset + cut.share[owner].count, next);
  }
  ASSERT_EQ(next, count);
  ASSERT_LT(cut.checker, cut.share.size());
}

std::vector<size_t> boundaries(const CutLimits& limits, size_t elementBytes) {
  std::vector<size_t> counts{0, 1, 2, 3, 7};
  for (size_t bytes : {size_t{64}, size_t{256}, limits.singleOwnerBytes, limits.targetChunkBytes, limits.maxChunkBytes,
                       4 * limits.targetChunkBytes, 4 * limits.maxChunkBytes}) {
    for (size_t owners : {1, 3, 5}) {
      const size_t base = owners * bytes / elementBytes;
      for (size_t count : {base - 1, base, base + 1}) counts.push_back(count);
    }
  }
  return counts;
}

const std::vector<Weights> kWeights{{1},
                                    {1, 1},
                                    {1, 1, 1, 1},
                                    {2, 2, 2, 6, 6},
                                    {0, 0, 1, 1, 1},
                                    {0, 5, 0},
                                    {1, 1000000},
                                    {7, 0, 3},
                                    {uint64_t{1} << 39, 1, 12345}};

TEST(CutterTest, CoversEveryElementOnceAtEveryBoundary) {
  for (const Weights& weights : kWeights) {
    for (size_t elementBytes : {1, 2, 4, 8}) {
      Cutter cutter(weights, kSmall);
      for (size_t count : boundaries(kSmall, elementBytes)) {
        const Cut cut = cutter.next(count, elementBytes);
        ASSERT_NO_FATAL_FAILURE(checkCut(cut, count, elementBytes, kSmall)) << count << " x " << elementBytes;
        ASSERT_GT(weights[cut.checker], 0U);
        for (size_t owner = 0; owner < weights.size(); ++owner)
          if (weights[owner] == 0) {
            ASSERT_EQ(cut.share[owner].count, 0U);
          }
      }
    }
  }
}

TEST(CutterTest, CoversRandomStreams) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    Weights weights(1 + random() % 8);
    for (uint64_t& weight : weights) weight = random() % 3 == 0 ? 0 : 1 + random() % 1000;
    weights.back() += 1;
    CutLimits limits{.maxChunkBytes = size_t{256} << random() % 6,
                     .targetChunkBytes = size_t{1} << random() % 14,
                     .chunkCostBytes = 1 + random() % 1000,
                     .quantumBytes = random() % 2 == 0 ? 64U : 192U,
                     .singleOwnerBytes = size_t{1} << random() % 12};
    Cutter cutter(weights, limits);
    for (int call = 0; call < 50; ++call) {
      const size_t elementBytes = size_t{1} << random() % 4;
      const size_t count = random() % (size_t{1} << random() % 18);
      ASSERT_NO_FATAL_FAILURE(checkCut(cutter.next(count, elementBytes), count, elementBytes, limits));
    }
  }
}

TEST(CutterTest, ZeroElementsHaveACheckerAndNoChunks) {
  Cutter cutter({0, 3, 1}, kSmall);
  const Cut cut = cutter.next(0, 4);
  EXPECT_EQ(cut.checker, 1U);
  EXPECT_EQ(cut.rounds, 0U);
  for (size_t owner = 0; owner < 3; ++owner) EXPECT_EQ(cut.chunks[owner], 0U);
}

TEST(CutterTest, CheckerIsIndependentOfTheCallsSize) {
  std::mt19937 random(5);
  for (const Weights& weights : kWeights) {
    Cutter cutter(weights, kSmall);
    for (int call = 0; call < 100; ++call) {
      Cutter other = cutter;
      EXPECT_EQ(cutter.next(random() % 1000, 4).checker, other.next(random() % 100000, 8).checker);
    }
  }
}

TEST(CutterTest, ForgottenCallsDoNotChangeTheNextCut) {
  for (const Weights& weights : kWeights) {
    Cutter cutter(weights, kSmall), fresh(weights, kSmall);
    for (const size_t count : {3U, 100U, 5U, 70000U}) cutter.next(count, 4);
    cutter.forgetCalls();
    for (const size_t count : {100000U, 10U, 60000U}) {
      const Cut cut = cutter.next(count, 4), expected = fresh.next(count, 4);
      EXPECT_EQ(cut.checker, expected.checker);
      for (size_t owner = 0; owner < weights.size(); ++owner)
        EXPECT_EQ(cut.share[owner].count, expected.share[owner].count);
    }
  }
}

TEST(CutterTest, SmallCallsGoWholeToTheChecker) {
  Cutter cutter({1, 1, 2}, kSmall);
  for (int call = 0; call < 20; ++call) {
    const Cut cut = cutter.next(128, 4);
    EXPECT_EQ(cut.share[cut.checker].count, 128U);
    EXPECT_EQ(cut.rounds, 1U);
  }
}

// Makes 2000 calls. Returns the largest difference after a call between the bytes that an owner has summed so far and
// the bytes that its weight gives it.
double worstDeviation(const Weights& weights, const CutLimits& limits, size_t largest, bool varied) {
  Cutter cutter(weights, limits);
  std::mt19937_64 random(7);
  const auto total = static_cast<double>(std::accumulate(weights.begin(), weights.end(), uint64_t{0}));
  std::vector<double> credit(weights.size(), 0);
  double worst = 0;
  for (int call = 0; call < 2000; ++call) {
    const size_t count = varied ? random() % largest + 1 : largest;
    const Cut cut = cutter.next(count, 1);
    for (size_t o = 0; o < weights.size(); ++o) {
      credit[o] += static_cast<double>(count) * static_cast<double>(weights[o]) / total;
      credit[o] -= static_cast<double>(cut.share[o].count);
      worst = std::max(worst, std::abs(credit[o]));
    }
  }
  return worst;
}

TEST(CutterTest, SmallCallsAverageToTheWeightsWithinOneCall) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 200; ++round) {
    Weights weights(2 + random() % 15);
    for (uint64_t& weight : weights) weight = 1 + random() % (round % 2 == 0 ? 10 : 100000);
    EXPECT_LE(worstDeviation(weights, kSmall, 300, false), 300);
    EXPECT_LE(worstDeviation(weights, kSmall, 512, true), 512);
    EXPECT_LE(worstDeviation(weights, kSmall, 5000, true), 513);  // some calls are divided, others have a single owner
  }
}

TEST(CutterTest, LargeCallsAreExactToTwoCacheLines) {
  const CutLimits limits{.singleOwnerBytes = 0};
  for (const Weights& weights : kWeights) EXPECT_LE(worstDeviation(weights, limits, 5000, true), 128);
}

TEST(CutterTest, LargeCallsUseTheTargetChunkSize) {
  Cutter cutter({2, 2, 2, 2, 6, 6}, {});  // n = 4, k = 2
  const Cut cut = cutter.next((64U << 20) / 4, 4);
  EXPECT_EQ(cut.rounds, 77U);  // the largest share is 6/20 of 64 MiB; a chunk is 256 KiB
  EXPECT_EQ(cut.chunks[4], cut.rounds);
}

TEST(CutterTest, EveryOwnerHasOneChunkPerRound) {
  for (const size_t servers : {1U, 2U, 3U}) {  // n = 4; a machine has weight 4 - k, a server 6
    Weights weights(4, 4 - servers);
    weights.resize(4 + servers, 6);
    const Cut cut = Cutter(weights, {}).next((64U << 20) / 4, 4);
    EXPECT_EQ(cut.chunks, std::vector<size_t>(weights.size(), cut.rounds));
    EXPECT_NEAR(static_cast<double>(cut.chunk(0, 0).count) / static_cast<double>(cut.chunk(4, 0).count),
                static_cast<double>(4 - servers) / 6, 0.01);
  }
}

TEST(CutterTest, AShareHasNoMoreChunksThanQuanta) {
  const Cut cut = Cutter({1, 10000}, {.targetChunkBytes = 16U << 10, .singleOwnerBytes = 0}).next(1U << 20, 1);
  EXPECT_EQ(cut.chunks[0], 2U);  // the share of 105 bytes covers two cache lines
  EXPECT_EQ(cut.chunks[1], cut.rounds);
  EXPECT_GT(cut.rounds, 2U);
}

TEST(CutterTest, ChunkSizeGrowsWithTheSquareRootOfTheCall) {
  const CutLimits limits{.targetChunkBytes = 64U << 10, .chunkCostBytes = 256, .singleOwnerBytes = 0};
  Cutter cutter({1, 1}, limits);
  EXPECT_EQ(cutter.next(64U << 20, 1).rounds, 512U);  // each share is 32 MiB, in chunks of 64 KiB
  EXPECT_EQ(cutter.next(16U << 20, 1).rounds, 181U);  // each share is 8 MiB; sqrt(256 B * 8 MiB) is 46341 B
  EXPECT_EQ(cutter.next(4U << 20, 1).rounds, 90U);
  EXPECT_EQ(cutter.next(1U << 20, 1).rounds, 45U);
  EXPECT_EQ(cutter.next(128U << 10, 1).rounds, 10U);  // chunks of 6 KiB, the minimum size
  EXPECT_EQ(cutter.next(12U << 10, 1).rounds, 1U);
}

TEST(CutterTest, TheWindowBridgesTheLatency) {
  const auto windowOf = [](size_t bytes, size_t latencyBytes) {
    Cutter cutter({1, 1, 1, 1}, {.targetChunkBytes = 32U << 10, .latencyBytes = latencyBytes, .singleOwnerBytes = 0});
    return cutter.next(bytes, 1).window;
  };
  EXPECT_EQ(windowOf(64U << 20, 0), 4U);
  EXPECT_EQ(windowOf(64U << 20, 6U << 10), 4U) << "the latency and the spare rounds together take two rounds";
  EXPECT_EQ(windowOf(64U << 20, 7U << 10), 5U);
  EXPECT_EQ(windowOf(64U << 20, 38U << 10), 5U);
  EXPECT_EQ(windowOf(64U << 20, 39U << 10), 6U);
  EXPECT_EQ(windowOf(64U << 20, 1U << 30), constants::kMaxWindow);
  EXPECT_EQ(windowOf(64U << 20, 64U << 10), 6U);
  EXPECT_EQ(windowOf(256U << 10, 64U << 10), 7U) << "chunks of smaller calls are smaller";
  EXPECT_EQ(windowOf(256U << 10, 0), 3U) << "a call of few rounds has few spare rounds";
}

TEST(CutterTest, ChunksAreSoLargeThatTheLargestWindowBridgesTheLatency) {
  CutLimits limits{.targetChunkBytes = 64U << 10, .latencyBytes = 6 * (20U << 10), .singleOwnerBytes = 0};
  limits.chunkCostBytes = 1;
  Cutter cutter({1, 1, 1, 1}, limits);
  const Cut cut = cutter.next(1U << 20, 1);
  EXPECT_GE(cut.chunk(0, 0).count, 28U << 10);
  EXPECT_LE(cut.chunk(0, 0).count, 32U << 10);
  EXPECT_LE(cut.window, constants::kMaxWindow);
}

TEST(CutterTest, UnequalOwnersDoNotMakeSmallCallsFiner) {
  const CutLimits limits{.targetChunkBytes = 16U << 10, .chunkCostBytes = 256, .singleOwnerBytes = 0};
  Cutter cutter({1, 1, 1, 1, 1, 1, 1, 1, 2}, limits);      // n = 8, k = 1
  EXPECT_EQ(cutter.next(1U << 20, 1).rounds, 18U);         // the mean share is 114 KiB, in chunks of 6 KiB
  EXPECT_EQ(cutter.next(8U << 20, 1).rounds, 103U);        // the largest share is 2/10 of 8 MiB, in chunks of 16 KiB
  Cutter most({1, 1, 1, 1, 1, 1, 1, 1, 7, 7, 7}, limits);  // the largest share determines the number of rounds
  EXPECT_EQ(most.next(8U << 20, 1).rounds, 124U);          // the largest share is 7/29 of 8 MiB, in chunks of 16 KiB
}

TEST(CutterTest, LargeCallsAreCutAtQuantumBoundaries) {
  CutLimits limits = kSmall;
  limits.quantumBytes = 192;
  Cutter cutter({1, 2}, limits);
  EXPECT_EQ(cutter.next((64 * 192) / 4, 4).quantum, 48U);
  EXPECT_EQ(cutter.next((64 * 192) / 4 - 1, 4).quantum, 16U) << "a cache line";
}

TEST(CutterTest, TwoCuttersWithTheSameCallsAgree) {
  const Weights weights{3, 1, 4, 1, 5};
  Cutter one(weights, kSmall), other(weights, kSmall);
  std::mt19937 random(3);
  for (int call = 0; call < 500; ++call) {
    const size_t count = random() % 5000;
    const size_t elementBytes = size_t{1} << random() % 4;
    const Cut a = one.next(count, elementBytes), b = other.next(count, elementBytes);
    ASSERT_EQ(a.checker, b.checker);
    ASSERT_EQ(a.rounds, b.rounds);
    ASSERT_EQ(a.chunks, b.chunks);
    for (size_t o = 0; o < weights.size(); ++o) {
      ASSERT_EQ(a.share[o].offset, b.share[o].offset);
      ASSERT_EQ(a.share[o].count, b.share[o].count);
    }
  }
}

TEST(CutterTest, HugeCountsDoNotOverflow) {
  Cutter cutter({uint64_t{1} << 39, (uint64_t{1} << 39) - 1}, {});
  for (int call = 0; call < 3; ++call) {
    const size_t count = (size_t{1} << 60) + 1;
    const Cut cut = cutter.next(count, 8);
    EXPECT_EQ(cut.share[0].count + cut.share[1].count, count);
    const ChunkRange last = cut.chunk(1, cut.chunks[1] - 1);
    EXPECT_EQ(last.offset + last.count, count);
    EXPECT_LE(last.count * 8, CutLimits{}.maxChunkBytes);
  }
}

TEST(CutterTest, LimitsOfACallOverrideTheDefaults) {
  CutLimits limits;
  limits.maxChunkBytes = limits.targetChunkBytes = 256U << 10;
  Cutter cutter({1, 1}, limits);
  EXPECT_EQ(cutter.next(64U << 20, 1).rounds, 128U);
  CutLimits finer = limits;
  finer.targetChunkBytes = 32U << 10;
  EXPECT_EQ(cutter.next(64U << 20, 1, finer).rounds, 1024U);
  EXPECT_EQ(cutter.next(64U << 20, 1).rounds, 128U);
}

}  // namespace
}  // namespace bps
