#include "src/server/quota.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <vector>

namespace bps::test {
namespace {

TEST(Quota, JobGetsAtMostHalfOfTheRest) {
  const auto quota = std::make_shared<Quota>(1024, JobResources{800, 1000});
  std::vector<Quota::Reservation> jobs;
  for (const size_t most : {400, 200, 100, 50}) {
    const Result<Quota::Reservation> refused = Quota::reserve(quota, {most + 1, 0});
    ASSERT_FALSE(refused.ok());
    EXPECT_EQ(std::string(refused.error().message()), "the job needs " + std::to_string(most + 1) + " descriptors, " +
                                                          std::to_string(2 * most) +
                                                          " are left of 1024 (ulimit -n); a job may take half of them");
    Result<Quota::Reservation> given = Quota::reserve(quota, {most, 0});
    ASSERT_TRUE(given.ok());
    jobs.push_back(std::move(given).value());
  }
  jobs.clear();
  EXPECT_TRUE(Quota::reserve(quota, {400, 0}).ok()) << "everything is released";
}

TEST(Quota, BoundsMemoryToo) {
  const auto quota = std::make_shared<Quota>(1024, JobResources{800, 1000});
  EXPECT_FALSE(Quota::reserve(quota, {0, 501}).ok());
  Quota::Reservation first = std::move(Quota::reserve(quota, {0, 500})).value();
  EXPECT_FALSE(Quota::reserve(quota, {0, 251}).ok());
  first = {};
  EXPECT_TRUE(Quota::reserve(quota, {0, 500}).ok());
}

TEST(Quota, AJobGrowsToHalfOfWhatOthersLeave) {
  const auto quota = std::make_shared<Quota>(1024, JobResources{800, 1000});
  Quota::Reservation first = std::move(Quota::reserve(quota, {0, 100})).value();
  EXPECT_TRUE(first.grow(400).ok());
  EXPECT_FALSE(first.grow(1).ok());
  EXPECT_FALSE(first.grow(SIZE_MAX).ok());
  Quota::Reservation second = std::move(Quota::reserve(quota, {0, 100})).value();
  EXPECT_TRUE(second.grow(150).ok());
  const Status refused = second.grow(1);
  EXPECT_EQ(refused.code(), Code::kSystem);
  first = {};
  EXPECT_TRUE(second.grow(250).ok());
  second = {};
  EXPECT_EQ(quota->left().bytes, 1000U) << "everything is released";
}

TEST(Quota, RaisesTheDescriptorLimit) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit lowered{before.rlim_max / 2, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lowered), 0);
  const auto quota = Quota::fromProcessLimits();
  rlimit after{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace bps::test
