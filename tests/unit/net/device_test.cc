#include "net_plugin/tcp/device.h"

#include <gtest/gtest.h>

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

TEST(Device, LoopbackWhenItIsNamed) {
  Result<std::vector<Device>> found = findDevices("=lo");
  ASSERT_TRUE(found.ok());
  const std::vector<Device> devices = std::move(found).value();
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_TRUE(devices[0].address.isLoopback());
  EXPECT_EQ(devices[0].pciPath, "");
}

TEST(Device, AFilterThatSelectsNothingIsAnError) {
  Result<std::vector<Device>> found = findDevices("=nosuch0");
  ASSERT_FALSE(found.ok());
  EXPECT_NE(std::string(found.error().message()).find("nosuch0"), std::string::npos);
}

}  // namespace
}  // namespace bps::plugin::tcp
