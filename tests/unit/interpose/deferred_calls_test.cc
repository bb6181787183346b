// Tests the stages of deferred calls, and the state that DeferredCalls reports in each stage.
#include "src/interpose/deferred_calls.h"

#include <future>
#include <thread>

#include "src/nccl/real_nccl.h"
#include "tests/unit/nccl/fake_gpu.h"

namespace bps::interpose {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

class DeferredCallsTest : public nccl::FakeGpuTest {
 protected:
  static constexpr auto kOp = static_cast<ncclRedOp_t>(ncclNumOps);
  const ncclComm_t comm_ = makeComm();
  DeferredCalls calls_;
};

TEST_F(DeferredCallsTest, ReportsInProgressFromBeginToEnd) {
  EXPECT_EQ(calls_.state(), ncclSuccess);
  EXPECT_TRUE(calls_.begin());
  EXPECT_EQ(calls_.state(), ncclInProgress);
  calls_.issue();
  EXPECT_TRUE(calls_.inProgress());
  calls_.end(ncclSuccess, comm_);
  EXPECT_EQ(calls_.state(), ncclSuccess);
}

TEST_F(DeferredCallsTest, KeepsTheFirstFailure) {
  for (const ncclResult_t outcome : {ncclSuccess, ncclSystemError, ncclRemoteError, ncclSuccess}) {
    calls_.begin();
    calls_.end(outcome, comm_);
  }
  EXPECT_EQ(calls_.state(), ncclSystemError);
}

TEST_F(DeferredCallsTest, LeavesWhatNcclHasInProgressToNccl) {
  calls_.begin();
  calls_.end(ncclInProgress, comm_);
  EXPECT_EQ(calls_.state(), ncclSuccess);
}

TEST_F(DeferredCallsTest, DestroysOperationsAfterTheCalls) {
  EXPECT_FALSE(calls_.destroyOpLater(kOp)) << "no call is deferred";
  calls_.begin();
  EXPECT_TRUE(calls_.destroyOpLater(kOp));
  EXPECT_EQ(takeCalls(), "");
  calls_.end(ncclSuccess, comm_);
  EXPECT_EQ(takeCalls(), "ncclRedOpDestroy ");
}

TEST_F(DeferredCallsTest, ClosedCallsKeepNoOutcome) {
  calls_.begin();
  calls_.close(steady_clock::now());
  EXPECT_EQ(calls_.state(), ncclSuccess);
  EXPECT_FALSE(calls_.destroyOpLater(kOp));
  calls_.end(ncclSystemError, comm_);
  EXPECT_EQ(calls_.state(), ncclSuccess);
  EXPECT_FALSE(calls_.begin());
}

TEST_F(DeferredCallsTest, CloseDoesNotWaitForTheNegotiation) {
  calls_.begin();
  const auto start = steady_clock::now();
  calls_.close(start + 10s);
  EXPECT_LT(steady_clock::now() - start, 5s);
}

TEST_F(DeferredCallsTest, CloseWaitsForCallsThatAreBeingIssued) {
  calls_.begin();
  calls_.issue();
  std::future<void> closed = std::async(std::launch::async, [&] { calls_.close(steady_clock::now() + 10s); });
  EXPECT_EQ(closed.wait_for(20ms), std::future_status::timeout);
  calls_.end(ncclSuccess, comm_);
  EXPECT_EQ(closed.wait_for(5s), std::future_status::ready);
}

TEST_F(DeferredCallsTest, CloseGivesUpAtItsTimeLimit) {
  calls_.begin();
  calls_.issue();
  const auto start = steady_clock::now();
  calls_.close(start + 30ms);
  EXPECT_GE(steady_clock::now() - start, 30ms);
}

}  // namespace
}  // namespace bps::interpose
