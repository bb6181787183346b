#include "src/plan/send_order.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace bps {
namespace {

using Order = std::vector<size_t>;

std::vector<bool> allOf(const std::vector<uint64_t>& weights) {
  std::vector<bool> owners;
  for (const uint64_t weight : weights) owners.push_back(weight > 0);
  return owners;
}

TEST(SendOrder, EqualWorkersStartWithThemselves) {
  const std::vector<uint64_t> weights{5, 5, 5};
  EXPECT_EQ(sendOrder(weights, allOf(weights), 0, 3), (Order{0, 1, 2}));
  EXPECT_EQ(sendOrder(weights, allOf(weights), 2, 3), (Order{2, 0, 1}));
}

TEST(SendOrder, MachinesStartAtEvenlySpacedShares) {
  const std::vector<uint64_t> weights{1, 1, 1, 1, 3, 3};  // n = 4, k = 2; a quarter of all weights is 2.5
  EXPECT_EQ(sendOrder(weights, allOf(weights), 0, 4), (Order{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(sendOrder(weights, allOf(weights), 1, 4), (Order{2, 3, 4, 5, 0, 1}));
  EXPECT_EQ(sendOrder(weights, allOf(weights), 2, 4), (Order{4, 5, 0, 1, 2, 3}));
  EXPECT_EQ(sendOrder(weights, allOf(weights), 3, 4), (Order{5, 0, 1, 2, 3, 4}));
}

TEST(SendOrder, OnlyOwnersAreInTheOrder) {
  EXPECT_EQ(sendOrder({0, 0, 1, 1}, {false, false, true, true}, 1, 2), (Order{3, 2}));
  EXPECT_EQ(sendOrder({0, 0, 1, 1}, {true, true, true, true}, 1, 2), (Order{3, 0, 1, 2})) << "for direct calls";
}

TEST(SendOrder, AnswerOrderIsTheArrivalOrder) {
  for (const std::vector<uint64_t>& weights :
       {std::vector<uint64_t>{0, 0, 0, 0, 1, 1, 1, 1}, {1, 1, 1, 1}, {3, 3, 3, 3, 9, 9}, {1, 1, 1, 1, 8}}) {
    const size_t machines = 4;
    for (size_t owner = 0; owner < weights.size(); ++owner) {
      if (weights[owner] == 0) continue;
      const Order answered = answerOrder(weights, owner, machines);
      ASSERT_EQ(answered.size(), machines);
      Order sorted = answered;
      std::sort(sorted.begin(), sorted.end());
      EXPECT_EQ(sorted, (Order{0, 1, 2, 3}));
      // Returns the weight of all owners to which `machine` sends before it sends to `owner`.
      const auto before = [&](size_t machine) {
        uint64_t bytes = 0;
        for (const size_t earlier : sendOrder(weights, allOf(weights), machine, machines)) {
          if (earlier == owner) break;
          bytes += weights[earlier];
        }
        return bytes;
      };
      for (size_t i = 1; i < machines; ++i)
        EXPECT_LE(before(answered[i - 1]), before(answered[i])) << "owner " << owner << ", place " << i;
    }
  }
}

}  // namespace
}  // namespace bps
