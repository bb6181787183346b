#include "src/service/round.h"

#include <gtest/gtest.h>

#include <array>

namespace bps {
namespace {

std::string nameOf(size_t machine) { return "rank " + std::to_string(machine); }

TEST(CheckRound, NamesBothRanksAndBothCalls) {
  const CallInfo ten{3, 10, 7, 0, false, 0}, twenty{3, 20, 7, 0, false, 0};
  const Status status = checkRound({{ten, nullptr, 40}, {ten, nullptr, 40}, {twenty, nullptr, 80}}, nameOf);
  EXPECT_EQ(status.code(), Code::kInvalidUsage);
  EXPECT_STREQ(status.message(),
               "ranks disagree: rank 0 called all-reduce #3 of 10 float32, sum, but rank 2 called all-reduce #3 of 20 "
               "float32, sum");
}

TEST(CheckRound, AcceptsDifferentScalars) {
  EXPECT_TRUE(checkRound({{{1, 4, 7, 5, true, 1}, nullptr, 16}, {{1, 4, 7, 5, true, 2}, nullptr, 16}}, nameOf).ok());
}

TEST(RoundSum, AveragesOverAllRanksAndScalesEachSource) {
  const std::array<float, 2> a{1, 2}, b{3, 5};
  std::array<float, 2> out{};
  RoundSum(4, RoundSum::Coverage::kAllRanks, 1)
      .run({{{0, 2, 7, 4, false, 0}, a.data(), 8}, {{0, 2, 7, 4, false, 0}, b.data(), 8}}, out.data());
  EXPECT_EQ(out[0], 1.0F);
  EXPECT_EQ(out[1], 1.75F);
  const ScalarBits two = 0x40000000;  // only the first contribution has this scalar
  RoundSum(4, RoundSum::Coverage::kAllRanks, 1)
      .run({{{0, 2, 7, 5, true, two}, a.data(), 8}, {{0, 2, 7, 5, false, 0}, b.data(), 8}}, out.data());
  EXPECT_EQ(out[0], 5.0F);
  EXPECT_EQ(out[1], 9.0F);
}

// The test averages the value 40000 four times. The sum of two such values already overflows float16.
TEST(RoundSum, AverageIsDividedBeforeTheFirstRounding) {
  const uint16_t value = 0x78e2;  // 40000
  const CallInfo call{0, 1, 6, 4, false, 0};
  const auto pass = [&](std::vector<Contribution> round, RoundSum::Coverage of) {
    uint16_t sum = 0;
    RoundSum(4, of, 1).run(round, &sum);
    return sum;
  };
  const Contribution own{call, &value, 2};
  const uint16_t half = pass({own, own}, RoundSum::Coverage::kSomeRanks), quarter = 0x70e2;
  EXPECT_EQ(half, 0x74e2);  // 20000
  const Contribution two{call, &half, 2, true}, one{call, &quarter, 2, true};
  EXPECT_EQ(pass({two, two}, RoundSum::Coverage::kAllRanks), value);
  EXPECT_EQ(pass({two, one, own}, RoundSum::Coverage::kAllRanks), value);
  EXPECT_EQ(pass({own, own, own, own}, RoundSum::Coverage::kAllRanks), value);
}

TEST(RoundSum, AverageOfIntegersIsDividedAtTheEnd) {
  const int8_t a = 7, b = -8, sum = 3;
  const CallInfo call{0, 1, 0, 4, false, 0};
  int8_t out = 0;
  RoundSum(4, RoundSum::Coverage::kSomeRanks, 1).run({{call, &a, 1}, {call, &b, 1}}, &out);
  EXPECT_EQ(out, -1);
  RoundSum(4, RoundSum::Coverage::kAllRanks, 1).run({{call, &b, 1}, {call, &sum, 1, true}}, &out);
  EXPECT_EQ(out, -1);  // -5 / 4
}

TEST(ScalarOne, IsOneInEveryType) {
  for (int t = 0; t < kDataTypes; ++t) {
    const auto type = static_cast<DataType>(t);
    std::array<uint8_t, 8> value{}, out{};
    value[elementBytes(type) - 1] = type == DataType::kFloat8e4m3 ? 0x40 : 0x44;
    const CallInfo call{0, 1, static_cast<uint8_t>(t), 5, true, scalarOne(type)};
    RoundSum(1, RoundSum::Coverage::kAllRanks, 1).run({{call, value.data(), elementBytes(type)}}, out.data());
    EXPECT_EQ(value, out) << dataTypeName(type);
  }
}

}  // namespace
}  // namespace bps
