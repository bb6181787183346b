#include "net_plugin/verbs/port_selection.h"

#include <gtest/gtest.h>

#include "net_plugin/verbs/memlock.h"

namespace bps::plugin::verbs {
namespace {

GidBytes gidOf(const char* text) {
  GidBytes gid{};
  EXPECT_TRUE(parseGid(text, gid)) << text;
  return gid;
}

const char* const kLinkLocal = "fe80:0000:0000:0000:64dd:b3ff:fec0:09a7";
const char* const kGlobal = "fd00:0000:0000:0000:64dd:b3ff:fec0:09a7";
const char* const kIpv4 = "0000:0000:0000:0000:0000:ffff:0a09:0001";

Gid line(int index, const char* text, bool routable) {
  Gid gid;
  gid.index = index;
  gid.bytes = gidOf(text);
  gid.routable = routable;
  return gid;
}

// Returns an Ethernet port with GIDs as an mlx5 device reports them. If an address has two GIDs, the RoCE v1 GID is
// before the RoCE v2 GID.
Port roce() {
  Port port;
  port.device = "mlx5_0";
  port.link = LinkLayer::kEthernet;
  port.state = "ACTIVE";
  port.gids = {line(0, kLinkLocal, false), line(1, kLinkLocal, true), line(2, kIpv4, false), line(3, kIpv4, true),
               line(5, kGlobal, true)};
  return port;
}

int chosen(const Port& port, int index, const GidBytes* peerGid = nullptr) {
  Result<Gid> gid = chooseGid(port, index, peerGid);
  return gid.ok() ? std::move(gid).value().index : -1;
}

bool selects(const char* text, const char* device, int port = 1) {
  Result<HcaFilter> filter = HcaFilter::parse(text);
  EXPECT_TRUE(filter.ok()) << text;
  return filter.ok() && std::move(filter).value().selects(device, port);
}

TEST(HcaFilter, NamesSelectByPrefix) {
  EXPECT_TRUE(selects("", "mlx5_0"));
  EXPECT_TRUE(selects("mlx5", "mlx5_0"));
  EXPECT_TRUE(selects("mlx5_1", "mlx5_10"));
  EXPECT_FALSE(selects("mlx5_1", "mlx5_2"));
  EXPECT_TRUE(selects("mlx4,mlx5", "mlx5_2"));
  EXPECT_TRUE(selects(",mlx5,", "mlx5_2"));
}

TEST(HcaFilter, EqualsSignSelectsExactNames) {
  EXPECT_TRUE(selects("=mlx5_1", "mlx5_1"));
  EXPECT_FALSE(selects("=mlx5_1", "mlx5_10"));
  EXPECT_TRUE(selects("=mlx5_0,mlx5_1", "mlx5_1"));
}

TEST(HcaFilter, CaretExcludes) {
  EXPECT_FALSE(selects("^mlx5_1", "mlx5_10"));
  EXPECT_TRUE(selects("^mlx5_1", "mlx5_2"));
  EXPECT_TRUE(selects("^=mlx5_1", "mlx5_10"));
  EXPECT_FALSE(selects("^=mlx5_1,mlx5_2", "mlx5_2"));
}

TEST(HcaFilter, ColonSelectsAPort) {
  EXPECT_TRUE(selects("mlx5_0:1", "mlx5_0", 1));
  EXPECT_FALSE(selects("mlx5_0:1", "mlx5_0", 2));
  EXPECT_TRUE(selects("=mlx5_0:1,mlx5_0:2", "mlx5_0", 2));
  EXPECT_TRUE(selects("^mlx5_0:1", "mlx5_0", 2));
}

TEST(HcaFilter, ErrorNamesTheInvalidItem) {
  for (const char* bad : {"mlx5_0:", "mlx5_0:0", "mlx5_0:256", "mlx5_0:one", "mlx5_0:1x", ":1", "^:1"}) {
    Result<HcaFilter> filter = HcaFilter::parse(bad);
    ASSERT_FALSE(filter.ok()) << bad;
    EXPECT_NE(std::string(filter.error().message()).find(bad), std::string::npos) << filter.error().message();
  }
}

TEST(ChooseGid, PrefersRoutableIpv4) {
  Port port = roce();
  EXPECT_EQ(chosen(port, -1), 3);
  port.gids.erase(port.gids.begin() + 3);
  EXPECT_EQ(chosen(port, -1), 5);  // the RoCE v2 GID of a global address
  port.gids.pop_back();
  EXPECT_EQ(chosen(port, -1), 1);  // a link-local RoCE v2 GID is preferred to every RoCE v1 GID
  port.gids.erase(port.gids.begin() + 1);
  EXPECT_EQ(chosen(port, -1), 2);
  port.gids.clear();
  EXPECT_EQ(chosen(port, -1), -1);
}

TEST(ChooseGid, UsesTheRequestedIndex) {
  for (const int index : {0, 1, 2, 3, 5}) EXPECT_EQ(chosen(roce(), index), index);
  Result<Gid> missing = chooseGid(roce(), 4);
  ASSERT_FALSE(missing.ok());
  EXPECT_STREQ(missing.error().message(), "it has no GID 4 (NCCL_IB_GID_INDEX)");
}

TEST(ChooseGid, MatchesThePeersAddressFamily) {
  const GidBytes v4 = gidOf(kIpv4), v6 = gidOf(kGlobal);
  EXPECT_EQ(chosen(roce(), -1, &v4), 3);
  EXPECT_EQ(chosen(roce(), -1, &v6), 5);
  Port port = roce();
  std::erase_if(port.gids, [](const Gid& gid) { return isIpv4(gid.bytes); });
  EXPECT_EQ(chosen(port, -1, &v4), -1);
}

TEST(ChooseGid, UsesTheFirstGidOnInfiniBand) {
  Port port = roce();
  port.link = LinkLayer::kInfiniBand;
  EXPECT_EQ(chosen(port, -1), 0);
  EXPECT_EQ(chosen(port, 2), 2);
}

TEST(ChoosePorts, ReportsWhyAPortIsSkipped) {
  Port down = roce(), bare = roce(), other = roce();
  down.device = "mlx5_1", down.state = "DOWN";
  bare.device = "mlx5_2", bare.gids.clear();
  other.device = "bnxt_0";
  std::vector<SkippedPort> skipped;
  const HcaFilter filter = HcaFilter::parse("mlx5").value();
  const std::vector<PortChoice> choices = choosePorts({roce(), down, bare, other}, filter, -1, skipped);
  ASSERT_EQ(choices.size(), 1U);
  EXPECT_EQ(choices[0].port.name(), "mlx5_0:1");
  EXPECT_EQ(choices[0].gid.index, 3);
  ASSERT_EQ(skipped.size(), 2U);  // ports that the filter excludes are not listed
  EXPECT_EQ(skipped[0].port + " " + skipped[0].why, "mlx5_1:1 its state is DOWN, not ACTIVE");
  EXPECT_EQ(skipped[1].port + " " + skipped[1].why, "mlx5_2:1 it has no GID: give its interface an address");
}

TEST(Memlock, ErrorNamesTheNeededBytes) {
  EXPECT_TRUE(checkMemlock(100, 40, 60).ok());
  const Status more = checkMemlock(100, 41, 60);
  ASSERT_FALSE(more.ok());
  EXPECT_NE(std::string(more.message()).find("RLIMIT_MEMLOCK is 100 bytes, but 101 bytes are needed"),
            std::string::npos);
  EXPECT_FALSE(checkMemlock(100, 0, 101).ok());
  EXPECT_TRUE(checkMemlock(UINT64_MAX, 1, UINT64_MAX - 1).ok());
}

}  // namespace
}  // namespace bps::plugin::verbs
