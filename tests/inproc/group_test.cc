// Groups, splits and forks through the public interface. One thread runs either one rank or several
// ranks.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "bps/bps.h"

namespace {

double secondsNow() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Two ranks of one communicator in this process.
class GroupTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("BPS_SOCKET_IFNAME", "lo", 1);
    ::setenv("BPS_AUTH", "off", 1);
    ::setenv("BPS_TIMEOUT", "3", 1);
    ::setenv("BPS_DEBUG", "NONE", 0);
    ASSERT_EQ(bpsCommInitAll(comms_, 2, nullptr), bpsSuccess) << bpsGetLastError(nullptr);
  }
  void TearDown() override {
    for (bpsComm_t comm : comms_)
      if (comm != nullptr) bpsCommDestroy(comm);
    ::setenv("BPS_TIMEOUT", "6", 1);
  }
  // Makes an all-reduce of all ranks on this thread, and checks the sums.
  static void expectSums(const bpsComm_t comms[2]) {
    float values[2] = {1, 2};
    ASSERT_EQ(bpsGroupStart(), bpsSuccess);
    for (int r = 0; r < 2; ++r)
      ASSERT_EQ(bpsAllReduce(&values[r], &values[r], 1, bpsFloat32, bpsSum, comms[r], nullptr), bpsSuccess);
    ASSERT_EQ(bpsGroupEnd(), bpsSuccess) << bpsGetLastError(nullptr);
    ASSERT_EQ(bpsHostStreamSynchronize(nullptr), bpsSuccess) << bpsGetLastError(comms[0]);
    EXPECT_EQ(values[0], 3);
    EXPECT_EQ(values[1], 3);
  }
  bpsComm_t comms_[2] = {nullptr, nullptr};
};

TEST_F(GroupTest, SplitsOfRanksOnOneThreadRunConcurrently) {
  bpsComm_t parts[2] = {comms_[0], comms_[1]}, alone[2] = {nullptr, nullptr};
  ASSERT_EQ(bpsGroupStart(), bpsSuccess);
  for (int r = 0; r < 2; ++r) {  // two splits of each parent, in the same order on all ranks
    ASSERT_EQ(bpsCommSplit(comms_[r], 0, -r, &parts[r], nullptr), bpsSuccess);
    EXPECT_EQ(parts[r], nullptr) << "made by the group's end";
    ASSERT_EQ(bpsCommSplit(comms_[r], r == 0 ? 7 : BPS_SPLIT_NOCOLOR, 0, &alone[r], nullptr), bpsSuccess);
  }
  ASSERT_EQ(bpsGroupEnd(), bpsSuccess) << bpsGetLastError(nullptr);
  int rank = -1, count = -1;
  ASSERT_EQ(bpsCommUserRank(parts[0], &rank), bpsSuccess);
  EXPECT_EQ(rank, 1) << "the larger key";
  ASSERT_EQ(bpsCommCount(alone[0], &count), bpsSuccess);
  EXPECT_EQ(count, 1);
  EXPECT_EQ(alone[1], nullptr);
  expectSums(parts);
  expectSums(comms_);
  for (bpsComm_t comm : {parts[0], parts[1], alone[0]}) EXPECT_EQ(bpsCommDestroy(comm), bpsSuccess);
}

TEST_F(GroupTest, NonBlockingSplitsContinueAfterGroupEnd) {
  bpsConfig_t config = BPS_CONFIG_INITIALIZER;
  config.blocking = 0;
  bpsComm_t parts[2];
  ASSERT_EQ(bpsGroupStart(), bpsSuccess);
  for (int r = 0; r < 2; ++r) ASSERT_EQ(bpsCommSplit(comms_[r], 0, r, &parts[r], &config), bpsSuccess);
  ASSERT_EQ(bpsGroupEnd(), bpsInProgress);
  for (bpsComm_t part : parts) {
    bpsResult_t state = bpsInProgress;
    const double until = secondsNow() + 10;
    while (state == bpsInProgress && secondsNow() < until) {
      ASSERT_EQ(bpsCommGetAsyncError(part, &state), bpsSuccess);
      std::this_thread::yield();
    }
    EXPECT_EQ(state, bpsSuccess);
  }
  expectSums(parts);
  for (bpsComm_t part : parts) EXPECT_EQ(bpsCommAbort(part), bpsSuccess);
}

TEST_F(GroupTest, CallsFailWithTheCommunicatorThatCannotStart) {
  ::setenv("BPS_TIMEOUT", "0.5", 1);
  bpsUniqueId id;
  ASSERT_EQ(bpsGetUniqueId(&id), bpsSuccess);
  float value = 1;
  bpsComm_t comm = nullptr;
  ASSERT_EQ(bpsGroupStart(), bpsSuccess);
  ASSERT_EQ(bpsCommInitRank(&comm, 2, id, 0), bpsSuccess);
  ASSERT_NE(comm, nullptr);
  ASSERT_EQ(bpsAllReduce(&value, &value, 1, bpsFloat32, bpsSum, comm, nullptr), bpsSuccess);
  EXPECT_EQ(bpsGroupEnd(), bpsRemoteError);
  EXPECT_EQ(comm, nullptr);
  EXPECT_NE(std::string(bpsGetLastError(nullptr)).find("missing: 1"), std::string::npos) << bpsGetLastError(nullptr);
}

TEST_F(GroupTest, DestroyingACommunicatorDropsItsDeferredCalls) {
  float value = 1;
  ASSERT_EQ(bpsGroupStart(), bpsSuccess);
  for (bpsComm_t comm : comms_)
    ASSERT_EQ(bpsAllReduce(&value, &value, 1, bpsFloat32, bpsSum, comm, nullptr), bpsSuccess);
  EXPECT_EQ(bpsCommAbort(std::exchange(comms_[0], nullptr)), bpsSuccess);
  EXPECT_EQ(bpsCommDestroy(std::exchange(comms_[1], nullptr)), bpsInvalidUsage);
  EXPECT_NE(std::string(bpsGetLastError(nullptr)).find("1 calls on it were still held"), std::string::npos);
  EXPECT_EQ(bpsGroupEnd(), bpsSuccess);
  EXPECT_EQ(value, 1);
}

// The threads cannot start, because each thread's stack would be larger than the address space.
TEST_F(GroupTest, GroupThatCannotStartThreadsFailsWithoutLeaks) {
  pthread_attr_t before, huge;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  ASSERT_EQ(pthread_attr_init(&huge), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 50), 0);
  bpsUniqueId id;
  ASSERT_EQ(bpsGetUniqueId(&id), bpsSuccess);
  bpsComm_t made[2];
  ASSERT_EQ(bpsGroupStart(), bpsSuccess);
  for (int r = 0; r < 2; ++r) ASSERT_EQ(bpsCommInitRank(&made[r], 2, id, r), bpsSuccess);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  const bpsResult_t ended = bpsGroupEnd();
  const std::string text = bpsGetLastError(nullptr);
  bpsConfig_t config = BPS_CONFIG_INITIALIZER;
  config.blocking = 0;
  bpsComm_t aside = comms_[0];
  const bpsResult_t asked = bpsCommInitRankConfig(&aside, 2, id, 0, &config);
  ASSERT_EQ(pthread_setattr_default_np(&before), 0);
  EXPECT_EQ(ended, bpsSystemError) << text;
  EXPECT_NE(text.find("need a thread each"), std::string::npos) << text;
  EXPECT_EQ(made[0], nullptr);
  EXPECT_EQ(made[1], nullptr);
  EXPECT_EQ(asked, bpsSystemError);
  EXPECT_EQ(aside, nullptr);
  expectSums(comms_);
  pthread_attr_destroy(&before);
  pthread_attr_destroy(&huge);
}

TEST_F(GroupTest, LateRankFailsTheSplitAndNotTheParent) {
  for (int late = 0; late < 2; ++late) {
    bpsComm_t early = nullptr, lateOne = nullptr;
    std::string why;
    std::jthread rank([&] {
      EXPECT_EQ(bpsCommSplit(comms_[1 - late], 0, 0, &early, nullptr), bpsRemoteError);
      why = bpsGetLastError(nullptr);
    });
    rank.join();  // the early rank's split has timed out by now
    EXPECT_NE(why.find("1 of 2 participants missing: rank " + std::to_string(late)), std::string::npos) << why;
    EXPECT_EQ(bpsCommSplit(comms_[late], 0, 0, &lateOne, nullptr), bpsRemoteError);
    EXPECT_NE(std::string(bpsGetLastError(nullptr)).find("waited"), std::string::npos) << bpsGetLastError(nullptr);
    EXPECT_TRUE(early == nullptr && lateOne == nullptr);
    for (bpsComm_t comm : comms_) {
      bpsResult_t state = bpsInternalError;
      EXPECT_EQ(bpsCommGetAsyncError(comm, &state), bpsSuccess);
      EXPECT_EQ(state, bpsSuccess);
    }
    expectSums(comms_);
    // After the failed split, the next split succeeds.
    bpsComm_t parts[2];
    ASSERT_EQ(bpsGroupStart(), bpsSuccess);
    for (int r = 0; r < 2; ++r) ASSERT_EQ(bpsCommSplit(comms_[r], 0, r, &parts[r], nullptr), bpsSuccess);
    ASSERT_EQ(bpsGroupEnd(), bpsSuccess) << bpsGetLastError(nullptr);
    expectSums(parts);
    for (bpsComm_t part : parts) EXPECT_EQ(bpsCommDestroy(part), bpsSuccess);
  }
}

TEST_F(GroupTest, ForkedChildLeavesItsParentsCommunicatorsAlone) {
  float value = 1;
  expectSums(comms_);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    const bool refused = bpsAllReduce(&value, &value, 1, bpsFloat32, bpsSum, comms_[0], nullptr) == bpsInvalidUsage &&
                         bpsCommFinalize(comms_[0]) == bpsInvalidUsage;
    const bool ended = bpsCommDestroy(comms_[0]) == bpsSuccess && bpsCommAbort(comms_[1]) == bpsSuccess;
    ::_exit(refused && ended ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  expectSums(comms_);
}

TEST_F(GroupTest, DefaultStreamReportsEachThreadsOwnFailure) {
  float values[2][200] = {};
  bpsResult_t outcomes[2] = {bpsSuccess, bpsSuccess};
  std::vector<std::jthread> ranks;
  for (size_t r = 0; r < 2; ++r)
    ranks.emplace_back([&, r] {  // the ranks disagree on the count
      outcomes[r] = bpsAllReduce(values[r], values[r], r == 0 ? 100 : 200, bpsFloat32, bpsSum, comms_[r], nullptr);
      if (outcomes[r] == bpsSuccess) outcomes[r] = bpsHostStreamSynchronize(nullptr);
    });
  for (std::jthread& rank : ranks) rank.join();
  EXPECT_EQ(outcomes[0], bpsInvalidUsage);
  EXPECT_EQ(outcomes[1], bpsInvalidUsage);
  EXPECT_EQ(bpsHostStreamSynchronize(nullptr), bpsSuccess) << "reported already";
}

}  // namespace
