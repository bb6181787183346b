// Non-blocking communicators: a function that would wait returns bpsInProgress, and the program
// polls until the operation is done.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>
#include <vector>

#include "bps/bps.h"
#include "bps/bps_ext.h"

namespace {

using std::chrono::steady_clock;

bpsResult_t stateOf(bpsComm_t comm) {
  bpsResult_t state = bpsInternalError;
  EXPECT_EQ(bpsCommGetAsyncError(comm, &state), bpsSuccess);
  return state;
}

// Polls until the state is not bpsInProgress, and returns the state.
bpsResult_t outcomeOf(bpsComm_t comm) {
  const auto deadline = steady_clock::now() + std::chrono::seconds(10);
  bpsResult_t state = bpsInProgress;
  while (state == bpsInProgress && steady_clock::now() < deadline) {
    state = stateOf(comm);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return state;
}

class NonBlocking : public testing::Test {
 protected:
  void SetUp() override {
    for (const auto& [name, value] : {std::pair{"BPS_SOCKET_IFNAME", "lo"}, {"BPS_AUTH", "off"}, {"BPS_TIMEOUT", "6"}})
      ASSERT_EQ(setenv(name, value, 1), 0);
    ASSERT_EQ(bpsGetUniqueId(&id_), bpsSuccess);
    config_.blocking = 0;
  }
  // Starts one of the two ranks.
  void begin(int rank) {
    ASSERT_EQ(bpsCommInitRankConfig(&comms_[static_cast<size_t>(rank)], 2, id_, rank, &config_), bpsInProgress);
  }
  void initBothRanks() {
    begin(0);
    begin(1);
    for (const bpsComm_t comm : comms_) ASSERT_EQ(outcomeOf(comm), bpsSuccess);
  }
  void issueOn(size_t rank, bpsHostStream_t stream) {
    ASSERT_EQ(bpsAllReduce(&values_[rank], &values_[rank], 1, bpsFloat32, bpsSum, comms_[rank], stream), bpsSuccess);
  }
  // Makes rank 0 finalize after a call on `stream` that rank 1 does not make.
  void finalizeOneRank(bpsHostStream_t& stream) {
    ASSERT_NO_FATAL_FAILURE(initBothRanks());
    ASSERT_EQ(bpsHostStreamCreate(&stream), bpsSuccess);
    issueOn(0, stream);
    EXPECT_EQ(bpsCommFinalize(comms_[0]), bpsInProgress);
  }

  bpsUniqueId id_{};
  bpsConfig_t config_ = BPS_CONFIG_INITIALIZER;
  std::vector<bpsComm_t> comms_{nullptr, nullptr};
  std::vector<float> values_{1, 2};
};

TEST_F(NonBlocking, InitIsPolled) {
  begin(0);
  EXPECT_EQ(stateOf(comms_[0]), bpsInProgress);
  int count = 0;
  EXPECT_EQ(bpsCommCount(comms_[0], &count), bpsInvalidArgument);
  begin(1);
  for (const bpsComm_t comm : comms_) EXPECT_EQ(outcomeOf(comm), bpsSuccess);
  EXPECT_EQ(bpsCommCount(comms_[0], &count), bpsSuccess);
  EXPECT_EQ(count, 2);
  for (const bpsComm_t comm : comms_) EXPECT_EQ(bpsCommDestroy(comm), bpsSuccess);
}

TEST_F(NonBlocking, AbortEndsAStartThatWaits) {
  begin(0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto start = steady_clock::now();
  EXPECT_EQ(bpsCommAbort(comms_[0]), bpsSuccess);
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(2));
}

// If finalize waited, the program's only thread could not react to a peer that never makes the
// call.
TEST_F(NonBlocking, FinalizeIsPolled) {
  initBothRanks();
  std::vector<bpsHostStream_t> streams(2);
  for (bpsHostStream_t& stream : streams) ASSERT_EQ(bpsHostStreamCreate(&stream), bpsSuccess);
  issueOn(0, streams[0]);
  EXPECT_EQ(bpsCommFinalize(comms_[0]), bpsInProgress);
  EXPECT_EQ(bpsCommFinalize(comms_[0]), bpsInvalidUsage);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(stateOf(comms_[0]), bpsInProgress) << "rank 1 has not called";
  issueOn(1, streams[1]);
  EXPECT_EQ(bpsCommFinalize(comms_[1]), bpsInProgress);
  for (const bpsComm_t comm : comms_) EXPECT_EQ(outcomeOf(comm), bpsSuccess);
  EXPECT_EQ(bpsCommFinalize(comms_[0]), bpsInvalidUsage);
  EXPECT_EQ(stateOf(comms_[0]), bpsSuccess);
  for (const float value : values_) EXPECT_EQ(value, 3);
  for (const bpsComm_t comm : comms_) EXPECT_EQ(bpsCommDestroy(comm), bpsSuccess);
  for (const bpsHostStream_t stream : streams) EXPECT_EQ(bpsHostStreamDestroy(stream), bpsSuccess);
}

TEST_F(NonBlocking, AbortEndsAFinalizeThatWaits) {
  bpsHostStream_t stream = nullptr;
  ASSERT_NO_FATAL_FAILURE(finalizeOneRank(stream));
  const auto start = steady_clock::now();
  EXPECT_EQ(bpsCommAbort(comms_[0]), bpsSuccess);
  EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_NE(bpsHostStreamDestroy(stream), bpsSuccess);  // the stream reports the failed call
  EXPECT_EQ(bpsCommAbort(comms_[1]), bpsSuccess);
}

// If the peer has gone, finalize must report the failure and not bpsInProgress.
TEST_F(NonBlocking, FailedFinalizeReportsTheReason) {
  bpsHostStream_t stream = nullptr;
  ASSERT_NO_FATAL_FAILURE(finalizeOneRank(stream));
  EXPECT_EQ(bpsCommAbort(comms_[1]), bpsSuccess);
  EXPECT_EQ(outcomeOf(comms_[0]), bpsRemoteError);
  EXPECT_NE(std::string(bpsGetLastError(comms_[0])).find("rank 1 ("), std::string::npos) << bpsGetLastError(comms_[0]);
  EXPECT_EQ(bpsCommDestroy(comms_[0]), bpsRemoteError);
  EXPECT_NE(bpsHostStreamDestroy(stream), bpsSuccess);
}

}  // namespace
