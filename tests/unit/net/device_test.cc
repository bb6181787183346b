#include "net_plugin/tcp/device.h"

#include <gtest/gtest.h>

#include "net_plugin/tcp/wire.h"

namespace bps::plugin::tcp {
namespace {

TEST(Device, PciFunctionOfADevicePath) {
  EXPECT_EQ(pciFunctionPath("/sys/devices/pci0000:00/0000:00:03.0/virtio1"), "/sys/devices/pci0000:00/0000:00:03.0");
  EXPECT_EQ(pciFunctionPath("/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.1"),
            "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.1");
  EXPECT_EQ(pciFunctionPath("/sys/devices/platform/virtio-mmio"), "");
  EXPECT_EQ(pciFunctionPath(""), "");
}

TEST(Device, SpeedText) {
  EXPECT_EQ(parseSpeedMbps("25000"), 25000);
  for (const char* unknown : {"", "-1", "0", "fast", "99999999999"}) EXPECT_EQ(parseSpeedMbps(unknown), 10000);
}

TEST(Device, SocketsByWishBySpeedAndByCloud) {
  EXPECT_EQ(chooseSockets({}, 1000, ""), 1U);
  EXPECT_EQ(chooseSockets({}, 25000, "0x15b3"), 1U);
  EXPECT_EQ(chooseSockets({}, 40000, "0x15b3"), 2U);
  EXPECT_EQ(chooseSockets({}, 100000, "0x15b3"), 4U);
  EXPECT_EQ(chooseSockets({}, 800000, "0x15b3"), 4U);
  EXPECT_EQ(chooseSockets({}, 10000, "0x1d0f"), 8U) << "Amazon: no flow is as fast as the adapter";
  EXPECT_EQ(chooseSockets({}, 10000, "0x1ae0"), 4U) << "Google";
  EXPECT_EQ(chooseSockets({.threads = -1, .perThread = 3}, 100000, "0x1d0f"), 3U) << "the wish comes first";
  EXPECT_EQ(chooseSockets({.threads = 2, .perThread = -1}, 100000, ""), 2U);
  EXPECT_EQ(chooseSockets({.threads = 2, .perThread = 8}, 100000, ""), 16U);
  EXPECT_EQ(chooseSockets({.threads = 16, .perThread = 64}, 100000, ""), kMostSockets);
}

TEST(Device, LoopbackWhenItIsNamed) {
  Result<std::vector<Device>> found = findDevices("=lo", {});
  ASSERT_TRUE(found.ok());
  const std::vector<Device> devices = std::move(found).value();
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_TRUE(devices[0].address.isLoopback());
  EXPECT_EQ(devices[0].pciPath, "");
}

TEST(Device, AFilterThatSelectsNothingIsAnError) {
  Result<std::vector<Device>> found = findDevices("=nosuch0", {});
  ASSERT_FALSE(found.ok());
  EXPECT_NE(std::string(found.error().message()).find("nosuch0"), std::string::npos);
}

}  // namespace
}  // namespace bps::plugin::tcp
