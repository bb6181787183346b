// Tests how a machine's ranks get switch groups, NICs and CPUs, and how a buffer is cut among the ranks.
#include "topo/plan/placement.h"

#include <gtest/gtest.h>

#include "tests/unit/topo/machines.h"

namespace bps {
namespace {

using test::dataFile;
using test::machine;

Placement placed(const Topology& topology, const std::vector<int>& gpus) {
  auto made = placeRanks(topology, gpus);
  EXPECT_TRUE(made.ok()) << made.error().message();
  return std::move(made).value();
}

std::string assignmentsText(const Topology& topology, const std::vector<NicAssignment>& assignments) {
  std::string text;
  for (const NicAssignment& assignment : assignments)
    text += std::to_string(assignment.rank) + ":" +
            (assignment.nic == kNoNode ? "none" : topology.node(assignment.nic).name) + " ";
  return text;
}

std::vector<size_t> firstRanks(size_t count) {
  std::vector<size_t> ranks;
  for (size_t i = 0; i < count; ++i) ranks.push_back(i);
  return ranks;
}

TEST(Placement, RanksAreGroupedBySwitch) {
  const Topology topology = machine("cpu[sw[gpu*3] gpu] cpu[sw[gpu*2]] cores=6");
  const Placement placement = placed(topology, {5, 0, 3, 1, 4, -1, -1});
  ASSERT_EQ(placement.groups.size(), 5U);
  EXPECT_EQ(placement.groups[0].ranks, (std::vector<size_t>{0, 4}));
  EXPECT_EQ(placement.groups[1].ranks, (std::vector<size_t>{1, 3}));
  EXPECT_EQ(placement.groups[2].ranks, (std::vector<size_t>{2}));  // its GPU has its own PCIe lanes
  EXPECT_EQ(placement.groupOf, (std::vector<size_t>{0, 1, 2, 1, 0, 3, 4}));
  EXPECT_EQ(topology.nameOf(placement.ranks[5].location), "CPU 0");
  EXPECT_EQ(topology.nameOf(placement.ranks[6].location), "CPU 1");
  EXPECT_EQ(placement.ranks[1].cpus.list(), "0");  // four ranks share the six cores of CPU 0
  EXPECT_EQ(placement.ranks[0].cpus.list(), "6-7");
}

TEST(Placement, DevicesBelowOneSwitchShareIt) {
  const Topology topology = machine("cpu[sw[sw[gpu*2] nic] gpu nic] cpu[sw[gpu nic]]");
  const auto& gpus = topology.all(NodeKind::kGpu);
  const auto& nics = topology.all(NodeKind::kNic);
  std::string near;
  for (const NodeId gpu : gpus)
    for (const NodeId nic : nics)
      if (topology.shareSwitch(gpu, nic)) near += topology.nameOf(gpu) + " " + topology.nameOf(nic) + ", ";
  EXPECT_EQ(near, "GPU 0 NIC nic0, GPU 1 NIC nic0, GPU 3 NIC nic2, ");
}

TEST(Placement, ErrorNamesRanksWithoutAGpu) {
  const Topology topology = machine("cpu[gpu*2]");
  EXPECT_STREQ(placeRanks(topology, {0, 2}).error().message(),
               "local rank 1: GPU 2 does not exist; the topology has 2, counted from 0");
  EXPECT_STREQ(placeRanks(topology, {}).error().message(), "0 ranks on one machine, expected 1 to 256");
}

TEST(Placement, EveryRankDrivesTheNearestNic) {
  const Topology eight = machine(dataFile("eight_nics.xml"));
  EXPECT_EQ(assignmentsText(eight, assignNics(eight, placed(eight, {0, 1, 2, 3, 4, 5, 6, 7}), firstRanks(8))),
            "0:mlx5_0 1:mlx5_1 2:mlx5_2 3:mlx5_3 4:mlx5_4 5:mlx5_5 6:mlx5_6 7:mlx5_7 ");
  // If the ranks are in another order, each NIC is still assigned to a rank whose GPU is near the NIC.
  EXPECT_EQ(assignmentsText(eight, assignNics(eight, placed(eight, {7, 6, 1, 0}), {0, 1, 2, 3})).substr(0, 20),
            "2:mlx5_0 3:mlx5_1 2:");
  const Topology one = machine(dataFile("pcie_only.xml"));
  EXPECT_EQ(assignmentsText(one, assignNics(one, placed(one, {0, 4}), {0, 1})), "0:mlx5_0 1:mlx5_0 ");
}

TEST(Placement, UnequalNicsTakeUnequalParts) {
  const Topology topology = machine("cpu[sw[gpu*2 nic:100] sw[gpu*2 nic:300] nic:1]");
  const Placement placement = placed(topology, {0, 1, 2, 3});
  const std::vector<NicAssignment> assignments = assignNics(topology, placement, firstRanks(4));
  EXPECT_EQ(assignmentsText(topology, assignments),
            "0:nic0 1:nic1 2:nic1 3:nic1 ");  // nic2 is a management NIC, so no rank drives it
  EXPECT_EQ(cutByAssignment(1200, 4, assignments), (std::vector<uint64_t>{0, 300, 600, 900, 1200}));
  // If only one rank drives the network, it gets all NICs, and each NIC gets its part of the buffer.
  EXPECT_EQ(cutByAssignment(1200, 4, assignNics(topology, placement, {2})), (std::vector<uint64_t>{0, 300, 1200}));
}

TEST(Placement, CutsCoverEverythingInWholeElements) {
  for (uint64_t bytes : {0, 1, 7, 8, 64, 1000, 4097})
    for (uint64_t unit : {1, 2, 4, 8})
      for (const std::vector<uint64_t>& weights :
           {std::vector<uint64_t>{1}, {1, 1, 1}, {3, 1}, {1, 0, 5}, {100000, 25000, 400000}}) {
        const std::vector<uint64_t> offsets = cutByWeight(bytes, unit, weights);
        ASSERT_EQ(offsets.size(), weights.size() + 1);
        EXPECT_EQ(offsets.front(), 0U);
        EXPECT_EQ(offsets.back(), bytes);
        for (size_t i = 0; i < weights.size(); ++i) {
          EXPECT_LE(offsets[i], offsets[i + 1]);
          if (i > 0) {
            EXPECT_EQ(offsets[i] % unit, 0U);
          }
        }
      }
}

}  // namespace
}  // namespace bps
