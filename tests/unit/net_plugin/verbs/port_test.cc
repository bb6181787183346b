#include "net_plugin/verbs/port.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "net_plugin/verbs/peer_memory.h"

namespace bps::plugin::verbs {
namespace {

namespace fs = std::filesystem;

TEST(VerbsPort, ParsesTheState) {
  EXPECT_EQ(parseState("4: ACTIVE"), "ACTIVE");
  EXPECT_EQ(parseState("1: DOWN"), "DOWN");
  EXPECT_EQ(parseState(""), "");
}

TEST(VerbsPort, UnknownRatesReadAsTenGigabits) {
  EXPECT_EQ(parseRateMbps("100 Gb/sec (4X EDR)"), 100000);
  EXPECT_EQ(parseRateMbps("2.5 Gb/sec (1X SDR)"), 2500);
  for (const char* unknown : {"", "fast", "-1 Gb/sec", "0 Gb/sec", "nan Gb/sec", "1e30 Gb/sec", "100", "100 Gb"})
    EXPECT_EQ(parseRateMbps(unknown), 10000) << unknown;
}

TEST(VerbsPort, ParsesGids) {
  GidBytes gid{};
  ASSERT_TRUE(parseGid("0000:0000:0000:0000:0000:ffff:0a09:0001", gid));
  EXPECT_TRUE(isIpv4(gid));
  EXPECT_EQ(gidText(gid), "::ffff:10.9.0.1");
  ASSERT_TRUE(parseGid("fe80:0000:0000:0000:64dd:b3ff:fec0:09a7", gid));
  EXPECT_FALSE(isIpv4(gid));
  EXPECT_EQ(gidText(gid), "fe80::64dd:b3ff:fec0:9a7");
  for (const char* bad : {"", "fe80", "fe80:0000:0000:0000:64dd:b3ff:fec0", "fe80:0000:0000:0000:64dd:b3ff:fec0:09a7:",
                          "fe80:0000:0000:0000:64dd:b3ff:fec0:09ax", "fe80.0000:0000:0000:64dd:b3ff:fec0:09a7",
                          "0000:0000:0000:0000:0000:0000:0000:0000", "fe80:0000:0000:0000:64dd:b3ff:fec0:09a"})
    EXPECT_FALSE(parseGid(bad, gid)) << bad;
}

TEST(VerbsPort, ParsesGuids) {
  EXPECT_EQ(parseGuid("64dd:b3ff:fec0:09a7"), 0x64ddb3fffec009a7U);
  for (const char* bad : {"", "64dd", "64dd:b3ff:fec0:09a7:0000", "64dd:b3ff:fec0:zzzz"}) EXPECT_EQ(parseGuid(bad), 0U);
}

// A directory with the layout of /sys/class/infiniband.
class SysfsPorts : public ::testing::Test {
 protected:
  SysfsPorts() : root_(fs::path(::testing::TempDir()) / ("bps-verbs-" + std::to_string(::getpid()))) {}
  ~SysfsPorts() override { fs::remove_all(root_); }

  void put(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  void putGid(const std::string& port, int index, const std::string& text, const std::string& type) {
    const std::string line = std::to_string(index);
    put(port + "/gids/" + line, text);
    put(port + "/gid_attrs/types/" + line, type);
    put(port + "/gid_attrs/ndevs/" + line, "eth4");
  }

  fs::path root_;
};

TEST_F(SysfsPorts, AreRead) {
  put("mlx5_1/node_guid", "0002:c903:0000:0001");
  put("mlx5_1/ports/1/state", "1: DOWN");
  put("mlx5_0/node_guid", "0002:c903:0000:0000");
  put("mlx5_0/ports/1/state", "4: ACTIVE");
  put("mlx5_0/ports/1/rate", "400 Gb/sec (4X NDR)");
  put("mlx5_0/ports/1/link_layer", "Ethernet");
  putGid("mlx5_0/ports/1", 0, "fe80:0000:0000:0000:64dd:b3ff:fec0:09a7", "IB/RoCE v1");
  putGid("mlx5_0/ports/1", 1, "0000:0000:0000:0000:0000:0000:0000:0000", "");
  putGid("mlx5_0/ports/1", 2, "0000:0000:0000:0000:0000:ffff:0a09:0001", "RoCE v2");
  const std::vector<Port> ports = readPorts(root_);
  ASSERT_EQ(ports.size(), 2U);
  const Port& port = ports[0];
  EXPECT_EQ(port.name(), "mlx5_0:1");
  EXPECT_EQ(port.state, "ACTIVE");
  EXPECT_EQ(port.speedMbps, 400000);
  EXPECT_EQ(port.link, LinkLayer::kEthernet);
  EXPECT_EQ(port.guid, 0x0002c90300000000U);
  ASSERT_EQ(port.gids.size(), 2U);
  EXPECT_FALSE(port.gids[0].routable);
  EXPECT_EQ(port.gids[1].index, 2);
  EXPECT_TRUE(port.gids[1].routable);
  EXPECT_EQ(port.gids[1].interface, "eth4");
  EXPECT_EQ(ports[1].state, "DOWN");
  EXPECT_EQ(ports[1].link, LinkLayer::kInfiniBand);
}

TEST_F(SysfsPorts, MissingDirectoryMeansNoPorts) { EXPECT_TRUE(readPorts(root_ / "nothing").empty()); }

TEST_F(SysfsPorts, PeerMemoryModuleIsFound) {
  EXPECT_EQ(peerMemoryModule(root_), "");
  put("kernel/mm/memory_peers/nv_mem/version", "1.3");
  EXPECT_EQ(peerMemoryModule(root_), "nv_peer_mem");
  put("module/nvidia_peermem/version", "550.54");
  EXPECT_EQ(peerMemoryModule(root_), "nvidia_peermem");
}

}  // namespace
}  // namespace bps::plugin::verbs
