#include "net_plugin/tcp/tcp_interface.h"

#include <gtest/gtest.h>

#include "net_plugin/tcp/wire.h"

namespace bps::plugin::tcp {
namespace {

TEST(TcpInterface, PciFunctionIsFoundInADevicePath) {
  EXPECT_EQ(pciFunctionPath("/sys/devices/pci0000:00/0000:00:03.0/virtio1"), "/sys/devices/pci0000:00/0000:00:03.0");
  EXPECT_EQ(pciFunctionPath("/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.1"),
            "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.1");
  EXPECT_EQ(pciFunctionPath("/sys/devices/platform/virtio-mmio"), "");
  EXPECT_EQ(pciFunctionPath(""), "");
}

TEST(TcpInterface, UnknownSpeedsReadAsTenGigabits) {
  EXPECT_EQ(parseSpeedMbps("25000"), 25000);
  for (const char* unknown : {"", "-1", "0", "fast", "99999999999"}) EXPECT_EQ(parseSpeedMbps(unknown), 10000);
}

TEST(TcpInterface, SocketCountFollowsSettingSpeedAndCloud) {
  EXPECT_EQ(chooseSocketCount({}, 1000, ""), 1U);
  EXPECT_EQ(chooseSocketCount({}, 25000, "0x15b3"), 1U);
  EXPECT_EQ(chooseSocketCount({}, 40000, "0x15b3"), 2U);
  EXPECT_EQ(chooseSocketCount({}, 100000, "0x15b3"), 4U);
  EXPECT_EQ(chooseSocketCount({}, 800000, "0x15b3"), 4U);
  EXPECT_EQ(chooseSocketCount({}, 10000, "0x1d0f"), 8U) << "Amazon: no flow is as fast as the adapter";
  EXPECT_EQ(chooseSocketCount({}, 10000, "0x1ae0"), 4U) << "Google";
  EXPECT_EQ(chooseSocketCount({.threads = -1, .perThread = 3}, 100000, "0x1d0f"), 3U) << "the setting wins";
  EXPECT_EQ(chooseSocketCount({.threads = 2, .perThread = -1}, 100000, ""), 2U);
  EXPECT_EQ(chooseSocketCount({.threads = 2, .perThread = 8}, 100000, ""), 16U);
  EXPECT_EQ(chooseSocketCount({.threads = 16, .perThread = 64}, 100000, ""), kMaxSockets);
}

TEST(TcpInterface, LoopbackIsUsedOnlyIfNamed) {
  Result<std::vector<TcpInterface>> found = findInterfaces("=lo", {});
  ASSERT_TRUE(found.ok());
  const std::vector<TcpInterface> devices = std::move(found).value();
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_TRUE(devices[0].address.isLoopback());
  EXPECT_EQ(devices[0].pciPath, "");
}

TEST(TcpInterface, AFilterThatSelectsNothingIsAnError) {
  Result<std::vector<TcpInterface>> found = findInterfaces("=nosuch0", {});
  ASSERT_FALSE(found.ok());
  EXPECT_NE(std::string(found.error().message()).find("nosuch0"), std::string::npos);
}

}  // namespace
}  // namespace bps::plugin::tcp
