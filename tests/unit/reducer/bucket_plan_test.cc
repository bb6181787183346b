#include "src/reducer/bucket_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace bps::reducer {
namespace {

using Lists = std::vector<std::vector<size_t>>;

Lists parametersOf(const std::vector<Bucket>& buckets) {
  Lists lists;
  for (const Bucket& bucket : buckets) lists.push_back(bucket.parameters);
  return lists;
}

std::vector<Parameter> floats(const std::vector<size_t>& counts) {
  std::vector<Parameter> parameters;
  for (const size_t count : counts) parameters.push_back({count, DataType::kFloat32});
  return parameters;
}

TEST(PlanBuckets, TheFirstBucketIsSmallAndTheOthersAreFilled) {
  const auto parameters = floats({16, 16, 16, 16, 16, 16, 16});  // 64 bytes each
  const auto buckets = planBuckets(parameters, reverseOrder(7), {128, 256});
  EXPECT_EQ(parametersOf(buckets), (Lists{{6, 5}, {4, 3, 2, 1}, {0}}));
  EXPECT_EQ(buckets[0].bytes, 128U);
  EXPECT_EQ(buckets[1].bytes, 256U);
}

TEST(PlanBuckets, WithoutALimitEveryParameterHasItsOwnBucket) {
  EXPECT_EQ(parametersOf(planBuckets(floats({1, 2, 3}), reverseOrder(3), {0, 0})), (Lists{{2}, {1}, {0}}));
}

TEST(PlanBuckets, OnlyABucketOfOneGradientExceedsTheLimit) {
  const auto buckets = planBuckets(floats({16, 1000, 16, 16}), reverseOrder(4), {128, 128});
  EXPECT_EQ(parametersOf(buckets), (Lists{{3, 2}, {1}, {0}}));
  EXPECT_EQ(buckets[1].bytes, 4000U);
}

// The bucket of a type whose last gradient becomes ready later comes later.
TEST(PlanBuckets, TypesDoNotMixAndBucketsFollowTheirLastGradient) {
  std::vector<Parameter> parameters = floats({16, 16, 16, 16, 16});
  parameters[4].type = parameters[1].type = DataType::kFloat64;
  const auto buckets = planBuckets(parameters, reverseOrder(5), {1 << 20, 1 << 20});
  EXPECT_EQ(parametersOf(buckets), (Lists{{4, 1}, {3, 2, 0}}));
  EXPECT_EQ(buckets[0].type, DataType::kFloat64);
  EXPECT_EQ(buckets[1].type, DataType::kFloat32);
}

TEST(PlanBuckets, BucketsTakeTurnsAmongTheQueues) {
  const auto buckets = planBuckets(floats({1, 1, 1, 1, 1}), reverseOrder(5), {0, 0, 2});
  std::vector<size_t> queues;
  for (const Bucket& bucket : buckets) queues.push_back(bucket.queue);
  EXPECT_EQ(queues, (std::vector<size_t>{0, 1, 0, 1, 0}));
}

// Parameters 0 and 1 are urgent: 64 bytes come before parameter 1, and 128 before parameter 2.
TEST(PlanBuckets, UrgentGradientsHaveTheirOwnBucketsAndQueue) {
  const auto buckets = planBuckets(floats({16, 16, 16, 16, 16}), reverseOrder(5), {128, 1 << 20, 2, 100});
  EXPECT_EQ(parametersOf(buckets), (Lists{{4, 3}, {2}, {1, 0}}));
  EXPECT_EQ(buckets[0].queue, 0U);
  EXPECT_EQ(buckets[1].queue, 1U);
  EXPECT_EQ(buckets[2].queue, 2U);
}

// Every parameter is in one bucket, its gradient overlaps no other and is aligned, and buckets keep to the limits.
TEST(PlanBuckets, EveryPlanIsComplete) {
  std::mt19937 random(1);
  for (int time = 0; time < 300; ++time) {
    std::vector<Parameter> parameters(1 + random() % 30);
    for (Parameter& each : parameters) each = {random() % 200, static_cast<DataType>(random() % kDataTypes)};
    std::vector<uint32_t> order = reverseOrder(parameters.size());
    std::shuffle(order.begin(), order.end(), random);
    const BucketLimits limits{random() % 500, random() % 2000, 1 + random() % 3, random() % 1000};
    std::vector<int> seen(parameters.size());
    for (const Bucket& bucket : planBuckets(parameters, order, limits)) {
      ASSERT_EQ(bucket.parameters.size(), bucket.offsets.size());
      size_t end = 0;
      for (size_t i = 0; i < bucket.parameters.size(); ++i) {
        const Parameter& parameter = parameters[bucket.parameters[i]];
        ++seen[bucket.parameters[i]];
        EXPECT_EQ(parameter.type, bucket.type);
        EXPECT_EQ(bucket.offsets[i] % kSlotBytes, 0U);
        EXPECT_GE(bucket.offsets[i], end);
        end = bucket.offsets[i] + parameter.bytes();
      }
      EXPECT_EQ(bucket.bytes, end);
      EXPECT_TRUE(bucket.parameters.size() == 1 || bucket.bytes <= std::max(limits.bytes, limits.firstBytes));
    }
    EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
  }
}

TEST(IsPermutation, RejectsRepeatedAndLargeNumbers) {
  EXPECT_TRUE(isPermutation(std::vector<uint32_t>{2, 0, 1}));
  EXPECT_FALSE(isPermutation(std::vector<uint32_t>{2, 0, 2}));
  EXPECT_FALSE(isPermutation(std::vector<uint32_t>{3, 0, 1}));
}

}  // namespace
}  // namespace bps::reducer
