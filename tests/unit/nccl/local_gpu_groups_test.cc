// Tests formLocalGpuGroups(), which decides which ranks combine their buffers through NCCL, and which of these ranks
// get a part of the buffer.
#include "src/nccl/local_gpu_groups.h"

#include <gtest/gtest.h>

#include <vector>

namespace bps::nccl {
namespace {

PeerInfo peerOn(uint64_t machine) {
  PeerInfo peer;
  peer.machine = machine;
  peer.hasServers = true;
  return peer;
}

// Returns one rank for each element of `gpuGroups`, which gives the number of the rank's group. Each group is a
// machine, unless `oneMachine` puts all ranks on machine 1.
std::vector<PeerInfo> peersOf(const std::vector<uint64_t>& gpuGroups, bool allowsAnyOrder = true,
                              bool oneMachine = false) {
  std::vector<PeerInfo> peers;
  for (const uint64_t gpuGroup : gpuGroups) {
    peers.push_back(peerOn(oneMachine ? 1 : gpuGroup));
    peers.back().gpuGroup = gpuGroup;
    peers.back().allowsAnyOrder = allowsAnyOrder;
  }
  return peers;
}

TEST(LocalGpuGroups, FirstRanksOfEachGroupOwnOnePartEach) {
  const LocalGpuGroups gpuGroups = formLocalGpuGroups(peersOf({7, 8, 7, 8, 7}));
  EXPECT_EQ(gpuGroups.owners, 2) << gpuGroups.why;
  EXPECT_EQ(gpuGroups.leaders, (std::vector<int>{0, 1, 0, 1, 0}));
  EXPECT_EQ(gpuGroups.groupRankOf(0), 0);
  EXPECT_EQ(gpuGroups.groupRankOf(4), 2);
  EXPECT_EQ(gpuGroups.sizeOf(4), 3);
  EXPECT_EQ(gpuGroups.groupRankOf(3), 1);
  EXPECT_EQ(gpuGroups.sizeOf(1), 2);
  EXPECT_TRUE(gpuGroups.order.allowsAnyOrder);
  EXPECT_EQ(formLocalGpuGroups(peersOf({7, 7, 9})).owners, 1);
}

TEST(LocalGpuGroups, RefuseUngroupedRanksAndSingletons) {
  EXPECT_EQ(formLocalGpuGroups(peersOf({7, 7, 8, 0})).why, "rank 3 has no local GPU group");
  EXPECT_EQ(formLocalGpuGroups(peersOf({7, 7, 8, 0})).owners, 0);
  EXPECT_EQ(formLocalGpuGroups(peersOf({7, 8, 9})).why, "no two GPUs share a machine or a switch");
}

TEST(LocalGpuGroups, OnlyPairsNeedNoOrderOfSummation) {
  EXPECT_TRUE(formLocalGpuGroups(peersOf({7, 7, 8, 8}, false)).order.hasOnlyPairs);
  EXPECT_TRUE(formLocalGpuGroups(peersOf({7, 7, 8}, false)).order.hasOnlyPairs);
  EXPECT_FALSE(formLocalGpuGroups(peersOf({7, 7, 7, 8}, false)).order.hasOnlyPairs);
  EXPECT_EQ(formLocalGpuGroups(peersOf({7, 7, 7, 8}, false)).owners, 1);
}

TEST(LocalGpuGroups, MachinesThatAddAlongARingHaveNoRankOrder) {
  std::vector<PeerInfo> peers = peersOf({7, 7, 7}, false);
  EXPECT_EQ(formLocalGpuGroups(peers).noRankOrder, "");
  peers[1].addsAlongRing = true;
  EXPECT_EQ(formLocalGpuGroups(peers).noRankOrder, "the machine of rank 1 adds along a ring of its GPUs");
}

TEST(LocalGpuGroups, PlacesFollowTheRanksOfTheCommunicator) {
  std::vector<PeerInfo> peers = peersOf({7, 8, 7, 7, 8}, false);
  peers[2].root = peers[4].root = true;  // group ranks of group 7: rank 2, rank 0, rank 3
  const LocalGpuGroups gpuGroups = formLocalGpuGroups(peers);
  EXPECT_EQ(gpuGroups.placesOf(3), (std::vector<int>{1, 0, 2}));
  EXPECT_EQ(gpuGroups.placesOf(1), (std::vector<int>{1, 0}));
}

TEST(LocalGpuGroups, FirstRanksOfPartsMustAgreeOnServersBeingSet) {
  std::vector<PeerInfo> peers = peersOf({7, 7, 7, 8, 8});
  peers[2].hasServers = peers[3].hasServers = false;  // ranks 2 and 3 are not rank 0 of a part's communicator
  EXPECT_EQ(formLocalGpuGroups(peers).owners, 2) << formLocalGpuGroups(peers).why;
  peers[1].hasServers = false;
  EXPECT_EQ(formLocalGpuGroups(peers).owners, 0);
  EXPECT_EQ(formLocalGpuGroups(peers).why, "BPS_SERVERS is not set alike on ranks 0 and 1");
}

TEST(LocalGpuGroups, RootsGetTheFirstGroupRanks) {
  std::vector<PeerInfo> peers = peersOf({7, 7, 7, 7, 8, 8, 8, 8});
  peers[2].root = peers[3].root = peers[5].root = peers[6].root = peers[7].root = true;
  LocalGpuGroups gpuGroups = formLocalGpuGroups(peers);
  EXPECT_EQ(gpuGroups.owners, 2) << gpuGroups.why;
  EXPECT_EQ(gpuGroups.groupRanks, (std::vector<int>{2, 3, 0, 1, 3, 0, 1, 2}));
  peers[5].root = peers[6].root = peers[7].root = false;  // this machine has a different plan
  gpuGroups = formLocalGpuGroups(peers);
  EXPECT_EQ(gpuGroups.owners, 2);
  EXPECT_EQ(gpuGroups.groupRanks, (std::vector<int>{2, 3, 0, 1, 0, 1, 2, 3}));
}

TEST(PeerInfo, EncodingRoundTrips) {
  PeerInfo peer = peerOn(0x1234567890abcdef);
  peer.gpuGroup = 77;
  peer.root = peer.addsAlongRing = true;
  peer.why = "no NCCL";
  WireWriter writer;
  peer.put(writer);
  WireReader reader(writer.bytes());
  PeerInfo read;
  read.get(reader);
  EXPECT_TRUE(reader.finish("peer").ok());
  EXPECT_EQ(read.machine, peer.machine);
  EXPECT_EQ(read.gpuGroup, 77U);
  EXPECT_TRUE(read.root && read.addsAlongRing && read.hasServers && !read.allowsAnyOrder);
  EXPECT_EQ(read.why, "no NCCL");
}

}  // namespace
}  // namespace bps::nccl
