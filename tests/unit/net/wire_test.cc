// The parsers of what comes from peers: what they accept, and that nothing else gets by.
#include "net_plugin/tcp/wire.h"

#include <gtest/gtest.h>

#include <random>

#include "net_plugin/comm.h"

namespace bps::plugin::tcp {
namespace {

HandleData someHandle() {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(0x0a000007);
  HandleData handle{Address(reinterpret_cast<const sockaddr*>(&v4), sizeof v4), {}};
  handle.address.setPort(7700);
  for (size_t i = 0; i < handle.token.size(); ++i) handle.token[i] = static_cast<uint8_t>(i * 17);
  return handle;
}

TEST(HandleWire, RoundTripIpv4) {
  Result<HandleData> parsed = parseHandle(encodeHandle(someHandle()));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  const HandleData handle = std::move(parsed).value();
  EXPECT_EQ(handle.address.text(), "10.0.0.7:7700");
  EXPECT_EQ(handle.token, someHandle().token);
}

TEST(HandleWire, RoundTripIpv6) {
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_addr = in6addr_loopback;
  v6.sin6_port = htons(9);
  HandleData handle{Address(reinterpret_cast<const sockaddr*>(&v6), sizeof v6), {}};
  Result<HandleData> parsed = parseHandle(encodeHandle(handle));
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(std::move(parsed).value().address.text(), "[::1]:9");
}

TEST(HandleWire, WrongBytesAreNamed) {
  const HandleBytes good = encodeHandle(someHandle());
  const auto why = [&](size_t index, uint8_t value) {
    HandleBytes bad = good;
    bad[index] = value;
    Result<HandleData> parsed = parseHandle(bad);
    return parsed.ok() ? std::string("accepted") : std::string(parsed.error().message());
  };
  EXPECT_NE(why(0, 0).find("not a handle"), std::string::npos);
  EXPECT_NE(why(4, 99).find("version 99"), std::string::npos);
  EXPECT_NE(why(6, 5).find("without an address"), std::string::npos);
  EXPECT_FALSE(parseHandle({}).ok());
  for (size_t length = 0; length < 42; ++length) EXPECT_FALSE(parseHandle(std::span(good).first(length)).ok());
}

TEST(HelloWire, OnlyTheTokenOpens) {
  const Token token = someHandle().token;
  const HelloBytes good = encodeHello(token, Carrier::kStream);
  EXPECT_TRUE(checkHello(good, token).ok());
  for (size_t i = 0; i < 24; ++i) {
    HelloBytes bad = good;
    bad[i] = static_cast<uint8_t>(bad[i] ^ 0x10);
    EXPECT_FALSE(checkHello(bad, token).ok()) << "byte " << i;
  }
  for (size_t length = 0; length < 24; ++length) EXPECT_FALSE(checkHello(std::span(good).first(length), token).ok());
}

TEST(HelloWire, TokensAreNotRepeated) {
  Result<Token> one = randomToken(), two = randomToken();
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_NE(std::move(one).value(), std::move(two).value());
}

TEST(FrameWire, RoundTrip) {
  for (size_t size : {size_t{0}, size_t{1}, size_t{65536}, kMaxMessageBytes}) {
    Result<size_t> parsed = parseFrame(encodeFrame(size, 70000), 70000);
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(std::move(parsed).value(), size);
  }
}

TEST(FrameWire, CorruptionIsNoticed) {
  EXPECT_FALSE(parseFrame(encodeFrame(10, 3), 4).ok()) << "another message";
  EXPECT_FALSE(parseFrame(encodeFrame(kMaxMessageBytes + 1, 3), 3).ok()) << "too large";
  FrameBytes bad = encodeFrame(10, 3);
  bad[4] ^= 1;
  EXPECT_FALSE(parseFrame(bad, 3).ok()) << "no magic";
  EXPECT_FALSE(parseFrame(std::span(bad).first(7), 3).ok()) << "short";
}

TEST(AllWire, RandomBytesAreTurnedAway) {
  std::minstd_rand random(11);
  for (int i = 0; i < 20000; ++i) {
    std::vector<uint8_t> bytes(random() % 140);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    EXPECT_FALSE(parseHandle(bytes).ok());
    EXPECT_FALSE(checkHello(bytes, someHandle().token).ok());
  }
}

}  // namespace
}  // namespace bps::plugin::tcp
