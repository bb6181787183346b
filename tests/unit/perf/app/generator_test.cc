// Tests the generator of bps-perf's inputs for every type, operation and number of ranks. The result of an all-reduce
// must have the expected bits for any order of its operations, with rounding after every operation. The generator must
// detect the errors that an all-reduce may make.
#include "perf/app/generator.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <random>

#include "cpu_reduce/reduce.h"

namespace bps::perf {
namespace {

constexpr size_t kCount = 200;
using Bytes = std::vector<uint8_t>;

struct Case {
  bpsDataType_t type;
  bpsRedOp_t op;
};

FoldOp foldOf(bpsRedOp_t op) { return op == bpsAvg || op == bpsNumOps ? FoldOp::kSum : static_cast<FoldOp>(op); }

class GeneratorTest : public testing::TestWithParam<std::tuple<int, int>> {
 protected:
  const Case case_{static_cast<bpsDataType_t>(std::get<0>(GetParam())),
                   static_cast<bpsRedOp_t>(std::get<1>(GetParam()))};
  const size_t bytes_ = kCount * typeBytes(case_.type);

  std::vector<Bytes> inputs(const Generator& generator, int ranks, uint64_t epoch) const {
    std::vector<Bytes> all(static_cast<size_t>(ranks), Bytes(bytes_));
    for (int r = 0; r < ranks; ++r) generator.fill(all[static_cast<size_t>(r)].data(), kCount, r, epoch);
    return all;
  }

  // Combines the inputs in the given order, as several machines would. Each group of `group` inputs gives a result that
  // is rounded to the type. Then the results of the groups are combined.
  Bytes reduced(const Generator& generator, const std::vector<Bytes>& all, const std::vector<size_t>& order,
                size_t group, uint64_t divisor) const {
    const auto type = static_cast<DataType>(case_.type);
    const bool average = case_.op == bpsAvg;  // float averages divide before the first rounding
    std::vector<Bytes> parts;
    for (size_t first = 0; first < order.size(); first += group) {
      std::vector<const void*> sources;
      std::vector<ScalarBits> scalars;
      for (size_t i = first; i < std::min(first + group, order.size()); ++i) {
        sources.push_back(all[order[i]].data());
        if (case_.op == bpsNumOps) scalars.push_back(generator.premulScalar(static_cast<int>(order[i])));
      }
      parts.emplace_back(bytes_);
      reduce({.dst = parts.back().data(),
              .sources = sources,
              .count = kCount,
              .type = type,
              .op = foldOf(case_.op),
              .scalars = scalars,
              .divisor = average && isFloat(case_.type) ? divisor : 1});
    }
    std::vector<const void*> sources;
    for (const Bytes& part : parts) sources.push_back(part.data());
    Bytes out(bytes_);
    reduce({.dst = out.data(),
            .sources = sources,
            .count = kCount,
            .type = type,
            .op = foldOf(case_.op),
            .divisor = average && !isFloat(case_.type) ? divisor : 1});
    return out;
  }

  static std::vector<size_t> inOrder(int ranks) {
    std::vector<size_t> order(static_cast<size_t>(ranks));
    std::iota(order.begin(), order.end(), size_t{0});
    return order;
  }
};

TEST_P(GeneratorTest, EveryOrderAndGroupingGivesTheExpectedResult) {
  std::mt19937 random(7);
  for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 11, 16, 17, 31, 33, 63, 64, 100, 129, 1024}) {
    const Generator generator(case_.type, case_.op, ranks);
    const auto all = inputs(generator, ranks, 5);
    auto order = inOrder(ranks);
    for (const size_t group : {size_t{1}, size_t{2}, size_t{3}, size_t{8}, order.size()}) {
      const Bytes result = reduced(generator, all, order, group, static_cast<uint64_t>(ranks));
      EXPECT_EQ(generator.wrongElements(result.data(), kCount, 5), 0U) << ranks << " ranks, groups of " << group;
      std::shuffle(order.begin(), order.end(), random);
    }
  }
}

TEST_P(GeneratorTest, EveryRankContributesForAnyRankCount) {
  for (int ranks = 2; ranks <= 64; ++ranks) {
    if (case_.op == bpsAvg && !isFloat(case_.type) && typeBytes(case_.type) == 1 && ranks > 127) continue;
    const Generator generator(case_.type, case_.op, ranks);
    const auto all = inputs(generator, ranks, 1);
    for (size_t gone = 0; gone < all.size(); gone += (ranks > 16 ? 7 : 1)) {
      auto order = inOrder(ranks);
      order.erase(order.begin() + static_cast<ptrdiff_t>(gone));
      const Bytes result = reduced(generator, all, order, order.size(), static_cast<uint64_t>(ranks));
      EXPECT_GT(generator.wrongElements(result.data(), kCount, 1), 0U) << "without rank " << gone << " of " << ranks;
    }
  }
}

TEST_P(GeneratorTest, DetectsShiftedStaleAndUntouchedResults) {
  const auto element = static_cast<ptrdiff_t>(typeBytes(case_.type));
  for (int ranks = 2; ranks <= 64; ++ranks) {
    const Generator generator(case_.type, case_.op, ranks);
    const auto all = inputs(generator, ranks, 3);
    const auto order = inOrder(ranks);
    const Bytes right = reduced(generator, all, order, order.size(), static_cast<uint64_t>(ranks));
    ASSERT_EQ(generator.wrongElements(right.data(), kCount, 3), 0U) << ranks;
    uint64_t untouched = 0;
    for (const Bytes& input : all) untouched += generator.wrongElements(input.data(), kCount, 3);
    EXPECT_GT(untouched, kCount / 2) << ranks;
    const bool constant = case_.op == bpsAvg && !isFloat(case_.type) && element == 1 && ranks > 63;
    if (constant) continue;
    Bytes shifted = right;
    std::rotate(shifted.begin(), shifted.begin() + element, shifted.end());
    EXPECT_GT(generator.wrongElements(shifted.data(), kCount, 3), kCount / 8) << ranks;
    EXPECT_EQ(generator.wrongElements(right.data(), kCount, 4), kCount) << "stale, " << ranks;
  }
}

INSTANTIATE_TEST_SUITE_P(AllTypesAndOps, GeneratorTest,
                         testing::Combine(testing::Range(0, static_cast<int>(bpsNumTypes)),
                                          testing::Range(0, static_cast<int>(bpsNumOps) + 1)));

TEST(Encode, AgreesWithTheKernelsRounding) {
  for (const bpsDataType_t type : {bpsFloat16, bpsBfloat16, bpsFloat8e4m3, bpsFloat8e5m2}) {
    // The kernel divides small whole numbers as floats, and rounds the quotient only once.
    for (int whole = 0; whole <= 8; ++whole) {
      for (uint64_t divisor = 1; divisor <= 1024; divisor += 3) {
        const uint64_t in = encode(type, whole);
        uint64_t out = 0;
        const void* source = &in;
        reduce({.dst = &out,
                .sources = {&source, 1},
                .count = 1,
                .type = static_cast<DataType>(type),
                .divisor = divisor});
        const float quotient = static_cast<float>(whole) / static_cast<float>(divisor);
        EXPECT_EQ(encode(type, static_cast<double>(quotient)), out) << type << ": " << whole << "/" << divisor;
      }
    }
  }
}

TEST(Encode, GivesKnownBits) {
  EXPECT_EQ(encode(bpsFloat16, 1.0), 0x3c00U);
  EXPECT_EQ(encode(bpsFloat16, -2.0), 0xc000U);
  EXPECT_EQ(encode(bpsBfloat16, 256), 0x4380U);
  EXPECT_EQ(encode(bpsFloat8e4m3, 448), 0x7eU);
  EXPECT_EQ(encode(bpsFloat8e4m3, 1000), 0x7fU);
  EXPECT_EQ(encode(bpsFloat8e5m2, 57344), 0x7bU);
  EXPECT_EQ(encode(bpsFloat8e5m2, 1e9), 0x7cU);
}

}  // namespace
}  // namespace bps::perf
