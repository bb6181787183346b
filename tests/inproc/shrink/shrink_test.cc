// bpsCommShrink through the public interface. The ranks are threads of this process.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include "bps/bps.h"

namespace {

constexpr int kRanks = 4;

class ShrinkApiTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("BPS_SOCKET_IFNAME", "lo", 1);
    ::setenv("BPS_AUTH", "off", 1);
    ::setenv("BPS_TIMEOUT", "3", 1);
    ::setenv("BPS_DEBUG", "NONE", 0);
    ASSERT_EQ(bpsCommInitAll(comms_, kRanks, nullptr), bpsSuccess) << bpsGetLastError(nullptr);
  }
  void TearDown() override {
    for (bpsComm_t comm : smaller_)
      if (comm != nullptr) bpsCommAbort(comm);
    for (bpsComm_t comm : comms_)
      if (comm != nullptr) bpsCommAbort(comm);
    ::setenv("BPS_TIMEOUT", "6", 1);
  }
  // Runs body(rank) for each rank on its own thread.
  static void onThreads(std::initializer_list<int> ranks, const std::function<void(int)>& body) {
    std::vector<std::jthread> threads;
    for (const int rank : ranks) threads.emplace_back(body, rank);
    for (std::jthread& thread : threads) thread.join();
  }
  bpsResult_t shrink(int rank, std::vector<int> excluded, int flags, bpsConfig_t* config = nullptr) {
    return bpsCommShrink(comms_[rank], excluded.data(), static_cast<int>(excluded.size()), &smaller_[rank], config,
                         flags);
  }
  // All-reduces 2^rank, where the rank is the number in the first communicator, and expects this sum.
  static void expectSum(bpsComm_t comm, int rank, int expected) {
    std::vector<int> values(1000, 1 << rank);
    bpsHostStream_t stream = nullptr;
    ASSERT_EQ(bpsHostStreamCreate(&stream), bpsSuccess);
    ASSERT_EQ(bpsAllReduce(values.data(), values.data(), values.size(), bpsInt32, bpsSum, comm, stream), bpsSuccess)
        << bpsGetLastError(nullptr);
    EXPECT_EQ(bpsHostStreamSynchronize(stream), bpsSuccess) << bpsGetLastError(comm);
    EXPECT_EQ(values, std::vector<int>(1000, expected));
    EXPECT_EQ(bpsHostStreamDestroy(stream), bpsSuccess);
  }
  static void expectPlace(bpsComm_t comm, int rank, int nRanks) {
    int number = -1;
    ASSERT_EQ(bpsCommUserRank(comm, &number), bpsSuccess);
    EXPECT_EQ(number, rank);
    ASSERT_EQ(bpsCommCount(comm, &number), bpsSuccess);
    EXPECT_EQ(number, nRanks);
  }
  bpsComm_t comms_[kRanks] = {}, smaller_[kRanks] = {};
};

TEST_F(ShrinkApiTest, HealthyParentStaysUsable) {
  for (int turn = 0; turn < 2; ++turn) {  // twice, with the same list
    onThreads({0, 2}, [&](int rank) {
      ASSERT_EQ(shrink(rank, {3, 1}, BPS_SHRINK_DEFAULT), bpsSuccess) << bpsGetLastError(nullptr);
      expectPlace(smaller_[rank], rank / 2, 2);
      expectSum(smaller_[rank], rank, 5);
    });
    onThreads({0, 1, 2, 3}, [&](int rank) { expectSum(comms_[rank], rank, 15); });
    onThreads({0, 2}, [&](int rank) { EXPECT_EQ(bpsCommDestroy(std::exchange(smaller_[rank], nullptr)), bpsSuccess); });
  }
}

TEST_F(ShrinkApiTest, SurvivorsOfAnAbortShrinkAndShrinkAgain) {
  ASSERT_EQ(bpsCommAbort(std::exchange(comms_[0], nullptr)), bpsSuccess);
  onThreads({1, 2, 3}, [&](int rank) {
    ASSERT_EQ(shrink(rank, {0}, BPS_SHRINK_ABORT), bpsSuccess) << bpsGetLastError(nullptr);
    expectSum(smaller_[rank], rank, 14);
    ASSERT_EQ(bpsCommAbort(std::exchange(comms_[rank], smaller_[rank])), bpsSuccess);
    smaller_[rank] = nullptr;
  });
  ASSERT_EQ(bpsCommAbort(std::exchange(comms_[2], nullptr)), bpsSuccess);
  onThreads({1, 3}, [&](int rank) {
    ASSERT_EQ(shrink(rank, {1}, BPS_SHRINK_ABORT), bpsSuccess) << bpsGetLastError(nullptr);
    expectPlace(smaller_[rank], rank / 2, 2);
    expectSum(smaller_[rank], rank, 10);
  });
  bpsResult_t state = bpsSuccess;
  ASSERT_EQ(bpsCommGetAsyncError(comms_[1], &state), bpsSuccess);
  EXPECT_NE(state, bpsSuccess);
}

TEST_F(ShrinkApiTest, AbortEndsTheCallsInFlight) {
  std::vector<int> values(1000, 1);
  bpsHostStream_t stream = nullptr;
  ASSERT_EQ(bpsHostStreamCreate(&stream), bpsSuccess);
  ASSERT_EQ(bpsAllReduce(values.data(), values.data(), values.size(), bpsInt32, bpsSum, comms_[0], stream), bpsSuccess);
  onThreads({0, 1, 2}, [&](int rank) {
    ASSERT_EQ(shrink(rank, {3}, BPS_SHRINK_ABORT), bpsSuccess) << bpsGetLastError(nullptr);
    if (rank == 0) {
      EXPECT_NE(bpsHostStreamQuery(stream), bpsInProgress);
    }
    expectSum(smaller_[rank], rank, 7);
  });
  EXPECT_NE(bpsHostStreamSynchronize(stream), bpsSuccess);
  EXPECT_EQ(bpsHostStreamDestroy(stream), bpsSuccess);
}

TEST_F(ShrinkApiTest, OneRankRemains) {
  ASSERT_EQ(shrink(2, {0, 1, 3}, BPS_SHRINK_DEFAULT), bpsSuccess) << bpsGetLastError(nullptr);
  expectPlace(smaller_[2], 0, 1);
  expectSum(smaller_[2], 2, 4);
}

TEST_F(ShrinkApiTest, WorksInGroupsAndWithoutBlocking) {
  ASSERT_EQ(bpsGroupStart(), bpsSuccess);
  for (const int rank : {1, 2}) ASSERT_EQ(shrink(rank, {0, 3}, BPS_SHRINK_DEFAULT), bpsSuccess);
  ASSERT_EQ(bpsGroupEnd(), bpsSuccess) << bpsGetLastError(nullptr);
  onThreads({1, 2}, [&](int rank) {
    expectSum(smaller_[rank], rank, 6);
    ASSERT_EQ(bpsCommDestroy(smaller_[rank]), bpsSuccess);
    bpsConfig_t config = BPS_CONFIG_INITIALIZER;
    config.blocking = 0;
    ASSERT_EQ(shrink(rank, {0, 3}, BPS_SHRINK_DEFAULT, &config), bpsInProgress);
    bpsResult_t state = bpsInProgress;
    while (state == bpsInProgress) ASSERT_EQ(bpsCommGetAsyncError(smaller_[rank], &state), bpsSuccess);
    EXPECT_EQ(state, bpsSuccess);
    expectSum(smaller_[rank], rank, 6);
  });
}

TEST_F(ShrinkApiTest, OnlyARevokedParentShrinksWithoutTheAbortFlag) {
  ASSERT_EQ(bpsCommRevoke(comms_[0], 0), bpsSuccess);
  bpsResult_t state = bpsSuccess;
  while (state == bpsSuccess) ASSERT_EQ(bpsCommGetAsyncError(comms_[1], &state), bpsSuccess);
  EXPECT_EQ(shrink(1, {0}, BPS_SHRINK_DEFAULT), state);
  EXPECT_EQ(smaller_[1], nullptr);
  EXPECT_NE(std::string(bpsGetLastError(nullptr)).find("comm has failed, and BPS_SHRINK_ABORT is not set: rank 0 ("),
            std::string::npos)
      << bpsGetLastError(nullptr);
  for (const int rank : {1, 2}) ASSERT_EQ(bpsCommRevoke(comms_[rank], 0), bpsSuccess);
  onThreads({0, 1, 2}, [&](int rank) {
    ASSERT_EQ(shrink(rank, {3}, BPS_SHRINK_DEFAULT), bpsSuccess) << bpsGetLastError(nullptr);
    expectSum(smaller_[rank], rank, 7);
  });
}

TEST_F(ShrinkApiTest, BadInputIsNamed) {
  const auto refused = [](bpsResult_t result, const std::string& text) {
    EXPECT_EQ(result, bpsInvalidArgument);
    EXPECT_EQ(bpsGetLastError(nullptr), "bpsCommShrink: " + text);
  };
  int list[] = {1, 2};
  refused(bpsCommShrink(comms_[0], list, 2, nullptr, nullptr, 0), "newcomm is NULL");
  refused(bpsCommShrink(nullptr, list, 2, &smaller_[0], nullptr, 0), "comm is NULL");
  refused(bpsCommShrink(comms_[0], nullptr, 1, &smaller_[0], nullptr, 0), "excludeRanksList is NULL");
  for (const int count : {-1, 0, kRanks})
    refused(
        bpsCommShrink(comms_[0], list, count, &smaller_[0], nullptr, 0),
        "excludeRanksCount is " + std::to_string(count) + ", expected at least 1 and less than 4, the number of ranks");
  refused(shrink(0, {1}, 2), "shrinkFlags is 2, expected BPS_SHRINK_DEFAULT or BPS_SHRINK_ABORT");
  refused(shrink(0, {2, 4}, 0), "excludeRanksList contains 4, expected 0 to 3");
  refused(shrink(0, {-1}, 0), "excludeRanksList contains -1, expected 0 to 3");
  refused(shrink(0, {2, 1, 2}, 0), "excludeRanksList contains 2 twice");
  refused(shrink(1, {2, 1}, BPS_SHRINK_ABORT), "excludeRanksList contains 1, the rank of the caller");
  bpsConfig_t config = {};
  refused(shrink(0, {1}, 0, &config), "config was not started from BPS_CONFIG_INITIALIZER");
  EXPECT_EQ(smaller_[0], nullptr);
  onThreads({0, 1, 2, 3}, [&](int rank) { expectSum(comms_[rank], rank, 15); });  // refused calls abort nothing
  onThreads({0, 1, 2, 3}, [&](int rank) { EXPECT_EQ(bpsCommFinalize(comms_[rank]), bpsSuccess); });
  EXPECT_EQ(shrink(0, {1}, BPS_SHRINK_ABORT), bpsInvalidUsage);
  EXPECT_STREQ(bpsGetLastError(nullptr), "bpsCommShrink: comm has been finalized");
}

TEST_F(ShrinkApiTest, MissingRankIsNamedInTime) {
  onThreads({0, 1}, [&](int rank) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(shrink(rank, {3}, BPS_SHRINK_DEFAULT), bpsRemoteError);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
    EXPECT_NE(std::string(bpsGetLastError(nullptr)).find("1 of 3 ranks missing: rank 2 ("), std::string::npos)
        << bpsGetLastError(nullptr);
    EXPECT_EQ(smaller_[rank], nullptr);
  });
}

}  // namespace
