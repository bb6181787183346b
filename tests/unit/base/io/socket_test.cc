#include "src/base/io/socket.h"
#include "src/base/io/host_lookup.h"
#include "src/base/io/interfaces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <string>

namespace bps {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

TEST(SocketTest, ParsesHostAndPort) {
  struct Case {
    const char* text;
    uint16_t defaultPort;
    const char* host;
    uint16_t port;
  };
  for (const Case& c :
       {Case{"cpu1:7700", 0, "cpu1", 7700}, Case{"cpu1", 7700, "cpu1", 7700}, Case{"10.0.0.1:1", 0, "10.0.0.1", 1},
        Case{"[::1]:80", 0, "::1", 80}, Case{"[fe80::1]", 7700, "fe80::1", 7700}, Case{"a:0", 0, "a", 0},
        Case{"a:65535", 0, "a", 65535}}) {
    auto parsed = parseHostPort(c.text, c.defaultPort);
    ASSERT_TRUE(parsed.ok()) << c.text << ": " << parsed.error().message();
    const HostPort where = std::move(parsed).value();
    EXPECT_EQ(where.host, c.host) << c.text;
    EXPECT_EQ(where.port, c.port) << c.text;
  }
}

TEST(SocketTest, RejectsInvalidHostAndPort) {
  for (const char* bad : {"", ":7700", "cpu1", "cpu1:", "cpu1:banana", "cpu1:65536", "cpu1:-1", "cpu1:1x", "[::1",
                          "[::1]x", "[]:1", "cpu1:99999999999", "cpu1 cpu2:1"}) {
    auto parsed = parseHostPort(bad, 0);
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_EQ(parsed.error().code(), Code::kInvalidArgument);
    EXPECT_THAT(parsed.error().message(), HasSubstr("\"" + std::string(bad) + "\""));
  }
}

Address loopback() {
  auto found = resolve({"127.0.0.1", 0}, Deadline::in(5s));
  EXPECT_TRUE(found.ok());
  return found.ok() ? std::move(found).value().front() : Address();
}

TEST(SocketTest, FormatsAddresses) {
  Address address = loopback();
  address.setPort(7700);
  EXPECT_EQ(address.text(), "127.0.0.1:7700");
  EXPECT_EQ(address.port(), 7700);
  EXPECT_TRUE(address.isLoopback());
  EXPECT_FALSE(address.isAny());
  EXPECT_EQ(Address().text(), "?");
}

TEST(SocketTest, UnknownHostIsNamedInTime) {
  auto found = resolve({"no-such-host.invalid", 1}, Deadline::in(5s));
  ASSERT_FALSE(found.ok());
  EXPECT_THAT(found.error().message(), HasSubstr("no-such-host.invalid"));
}

// A name service that does not answer must not block a caller of resolve() beyond its deadline. A caller that destroys
// an unfinished HostLookup must not be blocked either.
TEST(SocketTest, AbandonedLookUpsDoNotBlock) {
  const auto start = Deadline::Clock::now();
  for (int i = 0; i < 100; ++i) {
    HostLookup given({"no-such-host-" + std::to_string(i) + ".invalid", 1});
    auto found = resolve({"no-such-host.invalid", 1}, Deadline::in(0s));
    EXPECT_FALSE(found.ok());
  }
  EXPECT_LT(Deadline::Clock::now() - start, 2s);
}

TEST(SocketTest, ConnectsAndAccepts) {
  auto listening = listenOn(loopback());
  ASSERT_TRUE(listening.ok());
  const UniqueFd listener = std::move(listening).value();
  EXPECT_FALSE(std::move(acceptFrom(listener.get())).value().has_value());
  const Address where = localAddress(listener.get()).value();
  auto connecting = startConnect(where);
  ASSERT_TRUE(connecting.ok());
  const UniqueFd client = std::move(connecting).value();
  pollfd writable{client.get(), POLLOUT, 0};
  ASSERT_EQ(::poll(&writable, 1, 5000), 1);
  EXPECT_TRUE(connectResult(client.get(), where).ok());
  pollfd readable{listener.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&readable, 1, 5000), 1);
  const auto accepted = acceptFrom(listener.get()).value();
  ASSERT_TRUE(accepted.has_value());
  EXPECT_EQ(peerAddress(accepted->get()).value().text(), localAddress(client.get()).value().text());
}

TEST(SocketTest, PortInUseIsNamed) {
  const UniqueFd first = listenOn(loopback()).value();
  const Address taken = localAddress(first.get()).value();
  auto second = listenOn(taken);
  ASSERT_FALSE(second.ok());
  EXPECT_THAT(second.error().message(), HasSubstr(taken.text()));
}

TEST(SocketTest, RefusedConnectionNamesTheAddress) {
  Address where;
  {
    const UniqueFd listener = listenOn(loopback()).value();
    where = localAddress(listener.get()).value();
  }
  auto connecting = startConnect(where);
  Status status = connecting.ok() ? Status() : std::move(connecting).status();
  if (status.ok()) {
    const UniqueFd client = std::move(connecting).value();
    pollfd writable{client.get(), POLLOUT, 0};
    ASSERT_EQ(::poll(&writable, 1, 5000), 1);
    status = connectResult(client.get(), where);
  }
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.message(), HasSubstr(where.text()));
}

TEST(SocketTest, AnInterfaceRunsIfItIsUp) {
  EXPECT_TRUE(interfaceRuns("lo"));
  EXPECT_FALSE(interfaceRuns("none"));
  EXPECT_FALSE(interfaceRuns("a-name-that-is-too-long"));
}

TEST(SocketTest, SelectsInterfacesByName) {
  auto all = selectInterfaces("^nosuch");
  ASSERT_TRUE(all.ok());
  const std::vector<Interface> up = std::move(all).value();
  ASSERT_FALSE(up.empty());
  const std::string name = up.front().name;
  EXPECT_EQ(selectInterfaces("=" + name).value().size(), 1U);
  for (const Interface& other :
       selectInterfaces("^=" + name).ok() ? selectInterfaces("^=" + name).value() : std::vector<Interface>{})
    EXPECT_NE(other.name, name);
  auto none = selectInterfaces("=nosuch0");
  ASSERT_FALSE(none.ok());
  EXPECT_THAT(none.error().message(), HasSubstr("nosuch0"));
  EXPECT_THAT(none.error().message(), HasSubstr(name));
}

}  // namespace
}  // namespace bps
