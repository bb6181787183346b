// Tests Rails, which decides which ranks drive the network and which part of a chunk each driver carries.
#include "src/plan/rails.h"

#include <gtest/gtest.h>

#include <numeric>

#include "topo/plan/planner.h"
#include "topo/synthetic.h"

namespace bps {
namespace {

using Weights = std::vector<uint64_t>;

Weights weightsOf(const std::string& machine, size_t most, const std::string& strategy = "auto") {
  const Topology topology = std::move(std::move(readSynthetic(machine)).value().build()).value();
  LocalPlanRequest job;
  job.strategy = std::move(parseStrategy(strategy)).value();
  return railWeights(std::move(planLocal(topology, job)).value().best().plan, most);
}

TEST(Rails, RanksThatDriveANicAreRails) {
  const std::string twoNics = "cpu[sw[gpu*2 nic:100] sw[gpu*2 nic:100]]";
  EXPECT_EQ(weightsOf(twoNics, 4), (Weights{1U << 18, 1U << 18, 1U << 18, 1U << 18}));
  EXPECT_EQ(weightsOf(twoNics, 2), (Weights{1U << 19, 1U << 19})) << "the second NIC has nobody to drive it";
}

TEST(Rails, SharesFollowNicRates) {
  const Weights weights = weightsOf("cpu[sw[gpu nic:100] sw[gpu nic:300]]", 2);
  EXPECT_EQ(weights, (Weights{1U << 18, 3U << 18}));
  const Rails rails = commonRails({weights, weights});
  EXPECT_EQ(rails.rangeOf(0, 400, 4, true), (ByteRange{0, 100}));
  EXPECT_EQ(rails.rangeOf(1, 400, 4, true), (ByteRange{100, 400}));
  EXPECT_EQ(rails.rangeOf(0, 400, 4, false), (ByteRange{0, 400})) << "a small call goes over the main rail alone";
  EXPECT_TRUE(rails.carries(0, false));
  EXPECT_FALSE(rails.carries(1, false));
}

TEST(Rails, OnlyRailsOfAllMachinesAreUsed) {
  const Rails rails = commonRails({{4, 4, 0, 4}, {0, 8, 2, 2}});
  EXPECT_EQ(rails.drivers(), (std::vector<size_t>{1, 3}));
  EXPECT_EQ(rails.mainRail(), 1U);
  EXPECT_EQ(commonRails({{0, 4}, {4, 0}}).drivers(), std::vector<size_t>{0}) << "the leaders, if no rail is common";
}

TEST(Rails, RangesCoverTheWholeChunk) {
  const Rails rails = commonRails({{5, 0, 3, 9}});
  for (const uint64_t count : {0U, 1U, 2U, 3U, 17U, 1000U, 65536U}) {
    uint64_t end = 0;
    for (const size_t rail : rails.drivers()) {
      const ByteRange part = rails.rangeOf(rail, count * 2, 2, true);
      EXPECT_EQ(part.begin, end);
      EXPECT_EQ(part.size() % 2, 0U);
      end = part.end;
    }
    EXPECT_EQ(end, count * 2);
  }
}

TEST(Rails, OnlyCallsWithAChunkPerRailUseAllRails) {
  const Rails three = commonRails({{1, 1, 1}});
  EXPECT_TRUE(three.usesAllRails(3 * 4096, 4096));
  EXPECT_FALSE(three.usesAllRails(3 * 4096 - 3, 4096));
  EXPECT_FALSE(Rails().usesAllRails(1U << 30, 4096));
}

TEST(Rails, WeightsFromALeaderAreValidated) {
  const Weights weights{1, 0, uint64_t{1} << 32};
  EXPECT_EQ(decodeRailWeights(encodeRailWeights(weights), 3).value(), weights);
  EXPECT_FALSE(decodeRailWeights({}, 3).ok());
  EXPECT_FALSE(decodeRailWeights(encodeRailWeights(weights), 2).ok());
  EXPECT_FALSE(decodeRailWeights(encodeRailWeights(weights), 4).ok());
  EXPECT_FALSE(decodeRailWeights(encodeRailWeights({1, 1, (uint64_t{1} << 32) + 1}), 3).ok());
  EXPECT_FALSE(decodeRailWeights(encodeRailWeights({UINT64_MAX, UINT64_MAX, 3}), 3).ok()) << "their sum is 1";
}

}  // namespace
}  // namespace bps
