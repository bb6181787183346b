// Tests what the ranks agree on after the loss of a server.
#include "src/comm/lanes/recovery.h"

#include <gtest/gtest.h>

namespace bps::test {
namespace {

// Three machines of two ranks each. Both ranks of a machine drive a rail.
Roster makeRoster() {
  Roster roster;
  for (uint32_t machine = 0; machine < 3; ++machine) {
    roster.machines.push_back({{2 * machine, 2 * machine + 1}, 0});
    for (uint32_t local = 0; local < 2; ++local)
      roster.ranks.push_back({"h" + std::to_string(machine), "host", 2 * machine + local, machine, local});
  }
  roster.servers.push_back({.name = "cpu:1"});
  return roster;
}

class RecoveryTest : public testing::Test {
 protected:
  RecoveryTest() {
    for (size_t rank = 0; rank < 6; ++rank) {
      items_[rank].callsCut = 10;
      items_[rank].drivesRail = true;
      items_[rank].retired = 100;
      for (size_t machine = 0; machine < 3; ++machine)
        items_[rank].handles.push_back(Blob{static_cast<uint8_t>(rank), static_cast<uint8_t>(machine)});
    }
  }
  Result<Recovery> agree(size_t rank) {
    std::vector<Blob> blobs;
    for (const RecoveryItem& item : items_) blobs.push_back(encode(item));
    if (left_) blobs[*left_].clear();
    if (broken_) blobs[*broken_].pop_back();
    return agreeOnRecovery(blobs, roster_, rank, 8);
  }
  std::string errorOf(size_t rank) {
    Result<Recovery> agreed = agree(rank);
    return agreed.ok() ? "" : agreed.error().message();
  }

  const Roster roster_ = makeRoster();
  std::vector<RecoveryItem> items_ = std::vector<RecoveryItem>(6);
  std::optional<size_t> left_, broken_;
};

TEST_F(RecoveryTest, TheFirstCallIsTheFirstThatNoRankHasBegun) {
  items_[4].callsCut = 13;
  for (size_t rank = 0; rank < 6; ++rank) EXPECT_EQ(agree(rank).value().firstCall, 13U);
}

TEST_F(RecoveryTest, EveryRailHasItsOwnChunks) {
  items_[0].retired = 103;  // machine 0, rail 0
  items_[4].retired = 101;  // machine 2, rail 0
  const Recovery first = agree(2).value(), second = agree(3).value();
  EXPECT_EQ(first.from, 100U);
  EXPECT_EQ(first.to, 103U);
  EXPECT_EQ(first.sumHolders, (std::vector<size_t>{0, 0, 0}));
  EXPECT_EQ(second.from, 100U);
  EXPECT_EQ(second.to, 100U);
  EXPECT_TRUE(second.sumHolders.empty());
  items_[0].retired = 100;
  EXPECT_EQ(agree(2).value().sumHolders, std::vector<size_t>{2});
}

TEST_F(RecoveryTest, HandlesAreThoseForThisMachineOnThisRail) {
  EXPECT_EQ(agree(3).value().handles, (std::vector<Blob>{{1, 1}, {3, 1}, {5, 1}}));
}

TEST_F(RecoveryTest, ARankWithoutARailOnlyLearnsTheFirstCall) {
  for (const size_t rank : {1, 3, 5}) items_[rank] = {11, false, 0, {}};
  EXPECT_EQ(agree(1).value().firstCall, 11U);
  EXPECT_TRUE(agree(1).value().handles.empty());
  items_[1] = {11, true, 0, std::vector<Blob>(3)};
  EXPECT_EQ(errorOf(1), "recovery: rank 3 (host, pid 3) has no lane on rail 1");
}

TEST_F(RecoveryTest, ARankThatHasLeftEndsTheAgreement) {
  left_ = 5;
  EXPECT_TRUE(agree(0).value().rankLeft);
}

TEST_F(RecoveryTest, WrongItemsAreNamed) {
  items_[2].retired = 109;
  EXPECT_EQ(errorOf(0), "recovery: rank 2 (host, pid 2) is 9 chunks ahead of rank 0 (host, pid 0), more than 8");
  items_[2].handles.pop_back();
  EXPECT_NE(errorOf(0).find("rank 2 (host, pid 2): recovery item: a field is out of range"), std::string::npos);
  broken_ = 4;
  EXPECT_FALSE(errorOf(0).empty());
}

}  // namespace
}  // namespace bps::test
