#include "src/service/peer_wait.h"

#include <gtest/gtest.h>

namespace bps::test {
namespace {

using Data = PeerWait::Data;

TEST(PeerWait, TheTextNamesWhoIsMissingAndWhoIsDone) {
  const std::vector<PeerWait> waits{{"rank 1", Data::kContribution, 2, 0},
                                    {"rank 2", Data::kContribution, 0, 0},
                                    {"server a", Data::kSum, 3, 1},
                                    {"server b", Data::kSum, 0, 0}};
  EXPECT_EQ(describeWaits(waits),
            "contribution missing from: rank 1; sums missing from: server a; contribution arrived from: rank 2; "
            "all sums arrived from: server b");
}

TEST(PeerWait, WithoutMissingDataThereIsNoText) {
  EXPECT_EQ(describeWaits({}), "");
  EXPECT_EQ(describeWaits({{"rank 1", Data::kContribution, 0, 0}, {"rank 2", Data::kSum, 0, 4}}), "");
}

TEST(PeerWait, APeerIsNamedOnceAndIsNotDoneIfAnythingIsMissing) {
  const std::vector<PeerWait> waits{{"rank 1", Data::kContribution, 0, 0},
                                    {"rank 1", Data::kContribution, 1, 0},
                                    {"rank 1", Data::kContribution, 2, 0}};
  EXPECT_EQ(describeWaits(waits), "contribution missing from: rank 1");
}

TEST(PeerWait, OnlyTheFirstOfManyPeersAreNamed) {
  std::vector<PeerWait> waits;
  for (int i = 0; i < 1000; ++i) waits.push_back({"rank " + std::to_string(i), Data::kSum, 1, 0});
  EXPECT_EQ(namePeers(waits, Data::kSum, false),
            "rank 0, rank 1, rank 2, rank 3, rank 4, rank 5, rank 6, rank 7 and 992 more");
}

}  // namespace
}  // namespace bps::test
