// Tests how local GPU groups form: the steps that run on a rank, and the effect of failures on other ranks.
#include "src/nccl/group_formation.h"

#include "src/nccl/real_nccl.h"
#include "tests/unit/nccl/fake_gpu.h"

namespace bps::nccl {
namespace {

std::vector<PeerInfo> peersOf(const std::vector<uint64_t>& groups) {
  std::vector<PeerInfo> peers;
  for (const uint64_t group : groups) {
    peers.emplace_back().machine = group;
    peers.back().gpuGroup = group;
    peers.back().allowsAnyOrder = true;
  }
  return peers;
}

// One rank forms its local GPU group. The test supplies the status records of the other ranks.
class GroupFormationTest : public FakeGpuTest {
 protected:
  // Forms the local GPU group of `rank`.
  Result<FormedGroup> form(const std::vector<uint64_t>& groups, int rank = 0) {
    GroupFormation steps;
    steps.share = [this, rank, ranks = groups.size()](const Blob& mine) -> Result<std::vector<Blob>> {
      log_ += "share ";
      if (++shares_ == failingShare_) return Status(Code::kRemote, "a rank has left");
      std::vector<Blob> all(ranks,
                            RankStatus::encode(shares_ == othersFailAt_ ? Status(Code::kSystem, "no memory") : Status(),
                                               ncclUniqueId{}.internal));
      all[static_cast<size_t>(rank)] = mine;
      return all;
    };
    steps.create = [this](int part, int leader, bpsComm_t*) -> Status {
      log_ += "create:" + std::to_string(part) + "," + std::to_string(leader) + " ";
      return createFails_ ? Status(Code::kTimeout, "no owners") : Status();
    };
    steps.split = [this](const LocalGpuGroups&, const ncclUniqueId& id, ncclComm_t* made) -> Status {
      log_ += "split ";
      id_ = id.internal;
      *made = makeComm();
      return splitFails_ ? Status(Code::kSystem, "no split") : Status();
    };
    steps.splitNeedsId = needsId_;
    steps.openDevice = [] { return &fakeDevice(); };
    return joinLocalGpuGroup(peersOf(groups), rank, steps);
  }
  std::string takeLog() { return std::exchange(log_, {}); }

  int shares_ = 0, failingShare_ = 0, othersFailAt_ = 0;
  bool createFails_ = false, splitFails_ = false, needsId_ = false;
  std::string log_, id_;
};

TEST_F(GroupFormationTest, NoStepRunsIfCapabilitiesAllowNoGroups) {
  const FormedGroup formed = std::move(form({7, 8})).value();
  EXPECT_FALSE(formed.attempted);
  EXPECT_EQ(formed.group, nullptr);
  EXPECT_EQ(formed.why, "no two GPUs share a machine or a switch");
  EXPECT_EQ(takeLog(), "");
}

TEST_F(GroupFormationTest, OnlyGroupNeedsNoCommunicatorOfOwners) {
  const FormedGroup formed = std::move(form({7, 7})).value();
  EXPECT_TRUE(formed.attempted);
  ASSERT_NE(formed.group, nullptr) << formed.why;
  EXPECT_EQ(takeLog(), "share split share ");
  EXPECT_EQ(formed.partName, "in the part of ranks 0");
}

TEST_F(GroupFormationTest, RankWithoutPartTakesPartInTheSplitOfOwners) {
  const FormedGroup formed = std::move(form({7, 7, 9}, 1)).value();
  ASSERT_NE(formed.group, nullptr) << formed.why;
  EXPECT_EQ(formed.ownersComm, nullptr);
  EXPECT_EQ(takeLog(), "create:-1,0 share split share ");
  EXPECT_EQ(BPS_SPLIT_NOCOLOR, -1);
}

TEST_F(GroupFormationTest, FirstRankOfAGroupMakesTheIdIfOneIsNeeded) {
  needsId_ = true;
  ASSERT_NE(std::move(form({7, 7})).value().group, nullptr);
  EXPECT_NE(id_, "");
  ASSERT_NE(std::move(form({7, 7}, 1)).value().group, nullptr);
  EXPECT_EQ(id_, "") << "the id of rank 0, which the test leaves empty";
}

TEST_F(GroupFormationTest, FailureToCreateKeepsAllRanksFromTheSplit) {
  createFails_ = true;
  const FormedGroup formed = std::move(form({7, 7, 9}, 1)).value();
  EXPECT_EQ(formed.why, "rank 1: no owners");
  EXPECT_EQ(formed.group, nullptr);
  EXPECT_EQ(takeLog(), "create:-1,0 share ");
}

TEST_F(GroupFormationTest, FailureToSplitIsSharedAndAbortsWhatWasMade) {
  splitFails_ = true;
  const FormedGroup formed = std::move(form({7, 7})).value();
  EXPECT_EQ(formed.why, "rank 0: no split");
  EXPECT_EQ(formed.group, nullptr);
  EXPECT_EQ(takeLog(), "share split share ");
  EXPECT_EQ(takeCalls(), "ncclCommAbort ");
}

TEST_F(GroupFormationTest, FailureOfAnotherRankAbortsTheGroupOfThisRank) {
  othersFailAt_ = 2;
  const FormedGroup formed = std::move(form({7, 7})).value();
  EXPECT_EQ(formed.why, "rank 1: no memory");
  EXPECT_EQ(formed.group, nullptr);
  EXPECT_EQ(takeCalls(), "ncclCommAbort ");
}

TEST_F(GroupFormationTest, FailureToShareIsReturned) {
  for (failingShare_ = 1; failingShare_ <= 2; ++failingShare_, shares_ = 0) {
    const Result<FormedGroup> formed = form({7, 7});
    ASSERT_FALSE(formed.ok());
    EXPECT_EQ(formed.error().code(), Code::kRemote);
  }
}

TEST(RankStatus, EncodingRoundTrips) {
  ncclUniqueId id{}, read{};
  id.internal[127] = 'x';
  const Blob record = RankStatus::encode(Status(Code::kSystem, std::string(1000, 'w')), id.internal);
  EXPECT_EQ(record.size(), RankStatus::kBytes);
  RankStatus::readId(record, read.internal);
  EXPECT_EQ(read.internal[127], 'x');
  EXPECT_EQ(RankStatus::firstFailure(std::vector<Blob>{record}), "rank 0: " + std::string(240, 'w'));
}

TEST(RankStatus, TimeoutIsTheReasonOnlyWithoutAnotherFailure) {
  const ncclUniqueId id{};
  const auto record = [&](Code code, const char* why) {
    return RankStatus::encode(code == Code::kOk ? Status() : Status(code, why), id.internal);
  };
  const Blob good = record(Code::kOk, ""), late = record(Code::kTimeout, "late"), bad = record(Code::kSystem, "bad");
  EXPECT_EQ(RankStatus::firstFailure(std::vector<Blob>{good, good}), "");
  EXPECT_EQ(RankStatus::firstFailure(std::vector<Blob>{good, late, late}), "rank 1: late");
  EXPECT_EQ(RankStatus::firstFailure(std::vector<Blob>{late, good, bad}), "rank 2: bad");
  EXPECT_EQ(RankStatus::firstFailure(std::vector<Blob>{bad, late, bad}), "rank 0: bad");
}

TEST(RankStatus, RecordOfAnotherSizeIsAFailure) {
  EXPECT_EQ(RankStatus::firstFailure(std::vector<Blob>{Blob(3)}), "rank 0: its record cannot be read");
}

}  // namespace
}  // namespace bps::nccl
