// Tests the states of a local GPU group (usable, partly issued, ended) and the NCCL calls that the group makes.
#include "src/nccl/local_gpu_group.h"

#include <future>
#include <thread>

#include "src/nccl/real_nccl.h"
#include "tests/unit/nccl/fake_gpu.h"

namespace bps::nccl {
namespace {

using namespace std::chrono_literals;

constexpr size_t kCount = 64U << 10;  // floats in the smallest call that a group carries

class LocalGpuGroupTest : public FakeGpuTest {
 protected:
  // A group that contains all ranks.
  static inline const LocalGpuGroup::Shape kOnlyGroup{0, 2, 2, true, OrderRules()};
  // The group as seen by the second of its two ranks, which gets no part of the buffer.
  static inline const LocalGpuGroup::Shape kWithoutPart{1, 2, 1, false, OrderRules()};

  static std::unique_ptr<LocalGpuGroup> makeGroup(const LocalGpuGroup::Shape& shape, bool blocking = true,
                                                  std::function<bool()> stop = {}) {
    return std::move(LocalGpuGroup::create(shape, fakeDevice(), makeComm(blocking), nullptr, std::move(stop))).value();
  }
  static ncclResult_t noFailure(bool) { return ncclSuccess; }
};

TEST_F(LocalGpuGroupTest, SupportsCallsWhoseBitsDoNotDependOnTheOrder) {
  const auto group = makeGroup(kOnlyGroup);
  Call call = makeCall(kCount);
  const auto supports = [&](ncclDataType_t type, int op) {
    call.type = type;
    call.op = static_cast<ncclRedOp_t>(op);
    return group->supports(call);
  };
  constexpr int kMax = 2;
  EXPECT_TRUE(supports(ncclFloat32, ncclSum));
  EXPECT_FALSE(supports(ncclFloat32, kMax)) << "the result for NaNs depends on the order";
  EXPECT_FALSE(supports(ncclFloat32, ncclAvg));
  EXPECT_FALSE(supports(ncclFloat8e4m3, ncclSum));
  call.count = 4 * kCount;
  EXPECT_TRUE(supports(ncclInt8, kMax));
  call.count = 4 * kCount - 1;
  EXPECT_FALSE(supports(ncclInt8, kMax)) << "below 256 KiB";
}

TEST_F(LocalGpuGroupTest, AnyOrderAllowsFloatMaximum) {
  LocalGpuGroup::Shape shape = kOnlyGroup;
  shape.order.allowsAnyOrder = true;
  const auto group = makeGroup(shape);
  Call call = makeCall(kCount);
  call.op = static_cast<ncclRedOp_t>(2);
  EXPECT_TRUE(group->supports(call));
}

TEST_F(LocalGpuGroupTest, OnlyGroupLeavesTheWholeCallToNccl) {
  const auto group = makeGroup(kOnlyGroup);
  EXPECT_EQ(group->issue(makeCall(kCount)), ncclSuccess);
  EXPECT_EQ(takeCalls(), "ncclAllReduce:65536 ");
  EXPECT_EQ(recv_[kCount - 1], 3);
}

TEST_F(LocalGpuGroupTest, RankWithoutPartReducesAndThenReceivesTheSum) {
  const auto group = makeGroup(kWithoutPart);
  EXPECT_EQ(group->issue(makeCall(kCount)), ncclSuccess);
  EXPECT_EQ(takeCalls(),
            "ncclGroupStart ncclReduce:65536 ncclGroupEnd ncclGroupStart ncclBroadcast:65536 ncclGroupEnd ");
}

TEST_F(LocalGpuGroupTest, CallOf8MiBIsCutIntoTwoPieces) {
  const auto group = makeGroup(kWithoutPart);
  EXPECT_EQ(group->issue(makeCall(2U << 20)), ncclSuccess);
  EXPECT_EQ(takeCalls(),
            "ncclGroupStart ncclReduce:1048577 ncclGroupEnd ncclGroupStart ncclReduce:1048575 ncclGroupEnd "
            "ncclGroupStart ncclBroadcast:1048577 ncclGroupEnd ncclGroupStart ncclBroadcast:1048575 ncclGroupEnd ");
}

TEST_F(LocalGpuGroupTest, IssueInGroupLeavesTheThreadsOpenNcclGroup) {
  const auto group = makeGroup(kOnlyGroup);
  const Call call = makeCall(kCount);
  ASSERT_EQ(BPS_REAL(ncclGroupStart), ncclSuccess);
  EXPECT_EQ(group->issueInGroup(call), ncclSuccess);
  EXPECT_EQ(recv_[0], 3) << "carried out before the group ends";
  EXPECT_EQ(BPS_REAL(ncclGroupEnd), ncclSuccess);
}

TEST_F(LocalGpuGroupTest, FailureBeforeAnyPartIsIssuedLeavesTheGroupUsable) {
  const auto group = makeGroup(kWithoutPart);
  fakeNccl().fail("ncclReduce", ncclSystemError, 1);
  EXPECT_EQ(group->issue(makeCall(kCount)), ncclSystemError);
  EXPECT_EQ(group->issue(makeCall(kCount)), ncclSuccess);
}

TEST_F(LocalGpuGroupTest, FailureAfterAPartIsIssuedRefusesLaterCalls) {
  const auto group = makeGroup(kWithoutPart);
  fakeNccl().fail("ncclBroadcast", ncclSystemError, 1);
  EXPECT_EQ(group->issue(makeCall(kCount)), ncclSystemError);
  takeCalls();
  EXPECT_EQ(group->issue(makeCall(kCount)), ncclInvalidUsage);
  EXPECT_EQ(takeCalls(), "");
}

TEST_F(LocalGpuGroupTest, FailureAfterAPartIsIssuedFailsTheParent) {
  bpsUniqueId id;
  bpsComm_t parent = nullptr;
  ASSERT_EQ(bpsGetUniqueId(&id), bpsSuccess);
  ASSERT_EQ(bpsCommInitRank(&parent, 1, id, 0), bpsSuccess) << bpsGetLastError(nullptr);
  const auto group = makeGroup(kWithoutPart);
  group->linkToParent(parent, "in a part");
  bpsResult_t state = bpsInternalError;
  fakeNccl().fail("ncclReduce", ncclSystemError, 1);
  EXPECT_EQ(group->issue(makeCall(kCount)), ncclSystemError);
  EXPECT_EQ(bpsCommGetAsyncError(parent, &state), bpsSuccess);
  EXPECT_EQ(state, bpsSuccess) << "no part was issued";
  fakeNccl().fail("ncclBroadcast", ncclSystemError, 1);
  EXPECT_EQ(group->issue(makeCall(kCount)), ncclSystemError);
  EXPECT_EQ(bpsCommGetAsyncError(parent, &state), bpsSuccess);
  EXPECT_EQ(state, bpsSystemError);
  EXPECT_EQ(bpsCommAbort(parent), bpsSuccess);
}

TEST_F(LocalGpuGroupTest, EndDestroysOrAbortsTheCommunicatorOnce) {
  for (const bool abort : {false, true}) {
    const auto group = makeGroup(kOnlyGroup);
    group->end(abort);
    group->end(abort);
    EXPECT_EQ(takeCalls(), abort ? "ncclCommAbort " : "ncclCommDestroy ");
  }
}

TEST_F(LocalGpuGroupTest, EndedGroupRefusesCalls) {
  const auto group = makeGroup(kOnlyGroup);
  group->end(false);
  takeCalls();
  EXPECT_EQ(group->issue(makeCall(kCount)), ncclInvalidUsage);
  EXPECT_EQ(group->finalize(&noFailure), ncclInvalidUsage);
  EXPECT_EQ(group->error(), ncclSuccess);
  EXPECT_EQ(group->lastError(), "");
  EXPECT_EQ(takeCalls(), "");
}

TEST_F(LocalGpuGroupTest, EndWaitsForTheThreadThatIssues) {
  std::promise<void> issuing, release;
  const auto stop = [&, first = true]() mutable {
    if (std::exchange(first, false)) {
      issuing.set_value();
      release.get_future().wait();
    }
    return false;
  };
  const auto group = makeGroup(kOnlyGroup, false, stop);
  const Call call = makeCall(kCount);
  ncclResult_t issued = ncclSuccess;
  std::jthread issuer([&] { issued = group->issue(call); });
  EXPECT_EQ(issuing.get_future().wait_for(10s), std::future_status::ready);
  std::jthread ender([&] { group->end(false); });
  while (!group->lastError().empty()) std::this_thread::yield();  // waits until end() has taken NCCL's communicator
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(takeCalls(), "ncclAllReduce:65536 ") << "NCCL's communicator is still there";
  release.set_value();
  issuer.join();
  ender.join();
  EXPECT_EQ(issued, ncclInvalidUsage);
  EXPECT_EQ(takeCalls(), "ncclCommDestroy ");
}

TEST_F(LocalGpuGroupTest, IssueWaitsUntilNcclHasLaunched) {
  const auto group = makeGroup(kOnlyGroup, false);
  EXPECT_EQ(group->issue(makeCall(kCount)), ncclSuccess);
  EXPECT_EQ(group->issue(makeCall(kCount)), ncclSuccess) << "NCCL refuses a call while one is in progress";
}

TEST_F(LocalGpuGroupTest, IssueStopsWaitingForNcclWhenToldTo) {
  const auto group = makeGroup(kOnlyGroup, false, [] { return true; });
  EXPECT_EQ(group->issue(makeCall(kCount)), ncclRemoteError);
}

TEST_F(LocalGpuGroupTest, FinalizeWaitsUntilItsStreamIsIdle) {
  const auto group = makeGroup(kOnlyGroup);
  streamsIdle = false;
  std::future<ncclResult_t> outcome = std::async(std::launch::async, [&] { return group->finalize(&noFailure); });
  EXPECT_EQ(outcome.wait_for(20ms), std::future_status::timeout);
  streamsIdle = true;
  EXPECT_EQ(outcome.get(), ncclSuccess);
}

TEST_F(LocalGpuGroupTest, FinalizeReturnsTheFailureOfTheCommunicator) {
  const auto group = makeGroup(kOnlyGroup);
  streamsIdle = false;
  EXPECT_EQ(group->finalize([](bool inFlight) { return inFlight ? ncclSuccess : ncclRemoteError; }), ncclRemoteError);
  streamsIdle = true;
}

TEST_F(LocalGpuGroupTest, FinalizeReturnsWhenAnotherThreadEndsTheGroup) {
  const auto group = makeGroup(kOnlyGroup);
  streamsIdle = false;
  std::future<ncclResult_t> outcome = std::async(std::launch::async, [&] { return group->finalize(&noFailure); });
  group->end(true);
  EXPECT_EQ(outcome.get(), ncclInvalidUsage);
}

TEST_F(LocalGpuGroupTest, ErrorIsNcclsUnlessNcclIsInProgress) {
  const auto group = makeGroup(kOnlyGroup);
  fakeNccl().fail("ncclCommGetAsyncError", ncclInProgress, 1);
  EXPECT_EQ(group->error(), ncclSuccess);
  fakeNccl().fail("ncclCommGetAsyncError", ncclSystemError, 1);
  EXPECT_EQ(group->error(), ncclSystemError);
  EXPECT_EQ(group->lastError(), "last error of the NCCL double");
}

}  // namespace
}  // namespace bps::nccl
