// Ends requests to parameters with bpsCommRevoke and bpsCommAbort. All ranks are threads of this process.
#include <bps/bps.h>
#include <bps/params.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

namespace {

class ParamAbort : public testing::Test {
 protected:
  static constexpr uint64_t kKey = 3;
  static constexpr size_t kCount = 100;

  void TearDown() override {
    onAllRanks([](size_t, bpsComm_t comm) { bpsCommDestroy(comm); });
    unsetenv("BPS_STALENESS");
  }
  // Starts n ranks, and makes a parameter of zeros.
  void start(size_t n) {
    comms_.resize(n);
    ASSERT_EQ(bpsCommInitAll(comms_.data(), static_cast<int>(n), nullptr), bpsSuccess) << bpsGetLastError(nullptr);
    onAllRanks([](size_t, bpsComm_t comm) {
      std::array<int64_t, kCount> zeros{};
      EXPECT_EQ(bpsParamInit(comm, kKey, zeros.data(), kCount, bpsInt64), bpsSuccess) << bpsGetLastError(comm);
    });
  }
  void onAllRanks(const std::function<void(size_t, bpsComm_t)>& body) {
    std::vector<std::jthread> threads;
    for (size_t rank = 0; rank < comms_.size(); ++rank)
      if (comms_[rank] != nullptr) threads.emplace_back([&, rank] { body(rank, comms_[rank]); });
  }
  // Adds 1 to all elements.
  static bpsResult_t push(bpsComm_t comm, std::array<int64_t, kCount>& latest) {
    bpsHostStream_t stream = nullptr;
    EXPECT_EQ(bpsHostStreamCreate(&stream), bpsSuccess);
    latest.fill(1);
    const bpsResult_t issued = bpsParamPushPull(comm, kKey, latest.data(), latest.data(), kCount, bpsInt64, stream);
    const bpsResult_t done = bpsHostStreamSynchronize(stream);
    bpsHostStreamDestroy(stream);
    return issued == bpsSuccess ? done : issued;
  }
  // Makes a call of rank 0 that waits for rank 1, and revokes the communicator of rank 0.
  void expectRevokeEnds(const std::function<bpsResult_t(bpsComm_t)>& call) {
    bpsResult_t outcome = bpsSuccess;
    std::jthread caller([&] { outcome = call(comms_[0]); });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_EQ(bpsCommRevoke(comms_[0], 0), bpsSuccess);
    caller.join();
    EXPECT_NE(outcome, bpsSuccess);
    bpsResult_t state = bpsSuccess;
    EXPECT_EQ(bpsCommGetAsyncError(comms_[0], &state), bpsSuccess);
    EXPECT_NE(state, bpsSuccess);
    std::array<int64_t, kCount> latest{};
    EXPECT_NE(push(comms_[0], latest), bpsSuccess) << "no more requests";
  }

  std::vector<bpsComm_t> comms_;
};

TEST_F(ParamAbort, RevokeEndsABarrier) {
  start(2);
  expectRevokeEnds(bpsParamBarrier);
}

TEST_F(ParamAbort, RevokeEndsAPushThatWaitsForASlowRank) {
  setenv("BPS_STALENESS", "0", 1);
  start(2);
  expectRevokeEnds([](bpsComm_t comm) {
    std::array<int64_t, kCount> latest{};
    return push(comm, latest);
  });
}

TEST_F(ParamAbort, TheOtherRanksTrainOnAfterAnAbort) {
  start(3);
  onAllRanks([](size_t, bpsComm_t comm) {
    std::array<int64_t, kCount> latest{};
    EXPECT_EQ(push(comm, latest), bpsSuccess);
  });
  EXPECT_EQ(bpsCommAbort(std::exchange(comms_[2], nullptr)), bpsSuccess);
  onAllRanks([](size_t, bpsComm_t comm) {
    std::array<int64_t, kCount> latest{};
    for (int i = 0; i < 5; ++i) ASSERT_EQ(push(comm, latest), bpsSuccess) << bpsGetLastError(comm);
    EXPECT_EQ(bpsParamBarrier(comm), bpsSuccess) << bpsGetLastError(comm);
    ASSERT_EQ(push(comm, latest), bpsSuccess);
    // The lost rank owned some elements itself. Its push to these may be lost with it.
    for (const int64_t value : latest) EXPECT_GE(value, 2 + 10 + 1);
    EXPECT_NE(bpsAllReduce(latest.data(), latest.data(), kCount, bpsInt64, bpsSum, comm, nullptr), bpsSuccess)
        << "the abort ends all-reduces";
  });
}

}  // namespace
