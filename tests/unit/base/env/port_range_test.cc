#include <gtest/gtest.h>

#include "src/base/io/host_lookup.h"
#include "src/base/io/interfaces.h"
#include "src/base/io/socket.h"

namespace bps::test {
namespace {

Address loopback() {
  return std::move(resolve({"127.0.0.1", 0}, Deadline::in(std::chrono::seconds(1)))).value().front();
}

TEST(PortRange, ParsesTwoPortsWithADash) {
  const PortRange ports = std::move(parsePortRange("5000-5099")).value();
  EXPECT_EQ(ports.first, 5000);
  EXPECT_EQ(ports.last, 5099);
  EXPECT_EQ(std::move(parsePortRange("")).value().first, 0);
  EXPECT_TRUE(parsePortRange("7-7").ok());
  for (const char* bad : {"5000", "-", "5000-", "-5000", "5099-5000", "0-10", "1-65536", "a-b", "1-2-3", " 1-2"})
    EXPECT_FALSE(parsePortRange(bad).ok()) << bad;
}

// Returns a range of three free ports.
PortRange freeRange() {
  for (uint16_t first = 20000; first < 30000; first = static_cast<uint16_t>(first + 3)) {
    bool free = true;
    for (uint16_t i = 0; i < 3 && free; ++i) {
      Address address = loopback();
      address.setPort(static_cast<uint16_t>(first + i));
      free = listenOn(address).ok();
    }
    if (free) return {first, static_cast<uint16_t>(first + 2)};
  }
  return {};
}

TEST(PortRange, ListenersUseItsPortsAndNameAFullRange) {
  const PortRange ports = freeRange();
  ASSERT_NE(ports.first, 0);
  std::vector<UniqueFd> listeners;
  for (int i = 0; i < 3; ++i) {
    Result<UniqueFd> listening = listenOn(loopback(), ports);
    ASSERT_TRUE(listening.ok()) << listening.error().message();
    listeners.push_back(std::move(listening).value());
    const uint16_t port = std::move(localAddress(listeners.back().get())).value().port();
    EXPECT_GE(port, ports.first);
    EXPECT_LE(port, ports.last);
  }
  const Result<UniqueFd> full = listenOn(loopback(), ports);
  ASSERT_FALSE(full.ok());
  const std::string range = std::to_string(ports.first) + "-" + std::to_string(ports.last);
  EXPECT_EQ(std::string(full.error().message()),
            "no port of " + range + " is free on 127.0.0.1 (BPS_PORT_RANGE, or --data-ports of a server)");
  listeners.pop_back();
  EXPECT_TRUE(listenOn(loopback(), ports).ok());
}

TEST(Interfaces, AddressSelectsItsInterface) {
  const std::vector<Interface> found = std::move(selectInterfaces("=127.0.0.1")).value();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "lo");
  EXPECT_EQ(found[0].address.host(), "127.0.0.1");
  EXPECT_FALSE(selectInterfaces("=192.0.2.1").ok());
}

}  // namespace
}  // namespace bps::test
