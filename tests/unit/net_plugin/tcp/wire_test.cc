// Tests that the parsers of data from peers accept only valid input.
#include "net_plugin/tcp/wire.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "net_plugin/comm.h"
#include "net_plugin/stream/frame.h"
#include "src/base/checksum/crc32c.h"

namespace bps::plugin::tcp {
namespace {

using stream::encodeFrame;
using stream::parseFrame;
using stream::Slice;

HandleData someHandle() {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(0x0a000007);
  HandleData handle{Address(reinterpret_cast<const sockaddr*>(&v4), sizeof v4), {}};
  handle.address.setPort(7700);
  for (size_t i = 0; i < handle.token.size(); ++i) handle.token[i] = static_cast<uint8_t>(i * 17);
  return handle;
}

TEST(HandleWire, RoundTripsIpv4) {
  Result<HandleData> parsed = parseHandle(encodeHandle(someHandle()));
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  const HandleData handle = std::move(parsed).value();
  EXPECT_EQ(handle.address.text(), "10.0.0.7:7700");
  EXPECT_EQ(handle.token, someHandle().token);
}

TEST(HandleWire, RoundTripsIpv6) {
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_addr = in6addr_loopback;
  v6.sin6_port = htons(9);
  HandleData handle{Address(reinterpret_cast<const sockaddr*>(&v6), sizeof v6), {}};
  Result<HandleData> parsed = parseHandle(encodeHandle(handle));
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(std::move(parsed).value().address.text(), "[::1]:9");
}

TEST(HandleWire, InvalidHandlesAreRejectedByReason) {
  const HandleBytes good = encodeHandle(someHandle());
  const auto errorText = [&](size_t index, uint8_t value) {
    HandleBytes bad = good;
    bad[index] = value;
    Result<HandleData> parsed = parseHandle(bad);
    return parsed.ok() ? std::string("accepted") : std::string(parsed.error().message());
  };
  EXPECT_NE(errorText(0, 0).find("not from this plugin"), std::string::npos);
  EXPECT_NE(errorText(4, 99).find("version 99"), std::string::npos);
  EXPECT_NE(errorText(6, 5).find("without an address"), std::string::npos);
  EXPECT_FALSE(parseHandle({}).ok());
  for (size_t length = 0; length < 42; ++length) EXPECT_FALSE(parseHandle(std::span(good).first(length)).ok());
}

TEST(HandleWire, SocketCountsOutOfRangeAreRejected) {
  HandleData handle = someHandle();
  for (const size_t sockets : {size_t{1}, size_t{7}, kMaxSockets}) {
    handle.sockets = sockets;
    Result<HandleData> parsed = parseHandle(encodeHandle(handle));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(std::move(parsed).value().sockets, sockets);
  }
  for (const size_t sockets : {size_t{0}, kMaxSockets + 1}) {
    handle.sockets = sockets;
    Result<HandleData> parsed = parseHandle(encodeHandle(handle));
    ASSERT_FALSE(parsed.ok());
    EXPECT_NE(std::string(parsed.error().message()).find("with " + std::to_string(sockets)), std::string::npos);
  }
}

TEST(HelloWire, OnlyTheRightTokenIsAccepted) {
  const Token token = someHandle().token;
  const HelloBytes good = encodeHello(token, {.sockets = 4, .index = 3, .connection = 77});
  Result<Hello> parsed = parseHello(good, token);
  ASSERT_TRUE(parsed.ok());
  const Hello hello = std::move(parsed).value();
  EXPECT_EQ(hello.sockets, 4U);
  EXPECT_EQ(hello.index, 3U);
  EXPECT_EQ(hello.connection, 77U);
  for (size_t i = 0; i < good.size(); ++i) {
    HelloBytes bad = good;
    bad[i] = static_cast<uint8_t>(bad[i] ^ 0x40);
    EXPECT_FALSE(parseHello(bad, token).ok()) << "byte " << i;
  }
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_FALSE(parseHello(std::span(good).first(length), token).ok());
}

TEST(HelloWire, DoesNotRevealTheToken) {
  const Token token = someHandle().token;
  const HelloBytes hello = encodeHello(token, {.sockets = 1, .index = 0, .connection = 77});
  for (size_t length = 4; length <= token.size(); ++length)
    EXPECT_EQ(
        std::search(hello.begin(), hello.end(), token.begin(), token.begin() + static_cast<std::ptrdiff_t>(length)),
        hello.end());
}

TEST(HelloWire, SocketIndexIsWithinTheConnection) {
  const Token token = someHandle().token;
  for (const Hello wrong : {Hello{0, 0, 1}, Hello{1, 1, 1}, Hello{4, 4, 1}, Hello{kMaxSockets + 1, 0, 1}}) {
    Result<Hello> parsed = parseHello(encodeHello(token, wrong), token);
    ASSERT_FALSE(parsed.ok());
    EXPECT_NE(std::string(parsed.error().message()).find("socket"), std::string::npos);
  }
}

TEST(HelloWire, AVerbsConnectionUsesOneSocket) {
  const Token token = someHandle().token;
  const auto outcome = [&](const Hello& hello) {
    Result<Hello> parsed = parseHello(encodeHello(token, hello), token);
    return parsed.ok() ? std::string() : std::string(parsed.error().message());
  };
  Hello hello{.sockets = 1, .index = 0, .connection = 1, .carrier = Carrier::kVerbs};
  EXPECT_EQ(parseHello(encodeHello(token, hello), token).value().carrier, Carrier::kVerbs);
  hello.sockets = 4;
  EXPECT_EQ(outcome(hello), "the peer requests RDMA with 4 sockets, expected 1");
  hello.carrier = static_cast<Carrier>(2);
  EXPECT_NE(outcome(hello).find("kind 2"), std::string::npos);
}

TEST(HelloWire, TokensAreNotRepeated) {
  Result<Token> one = randomToken(), two = randomToken();
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_NE(std::move(one).value(), std::move(two).value());
}

std::vector<uint8_t> frameOf(const Slice& slice) {
  const stream::FrameBytes frame = encodeFrame(slice);
  return {frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(frameBytesOf(slice))};
}

TEST(FrameWire, RoundTrips) {
  for (const Slice& slice :
       {Slice{0, 0, 0, 0}, Slice{70000, 1, 0, 1}, Slice{7, kMaxMessageBytes, 0, kMaxMessageBytes},
        Slice{uint64_t{1} << 40, 100000, 65536, 34464}, Slice{3, kMaxMessageBytes, kMaxMessageBytes - 1, 1}}) {
    const std::vector<uint8_t> frame = frameOf(slice);
    EXPECT_EQ(frame.size(), slice.isWhole() ? stream::kFrameBytes : stream::kSliceFrameBytes);
    EXPECT_EQ(stream::frameBytesOf(std::span<const uint8_t>(frame)).value(), frame.size());
    Result<Slice> parsed = parseFrame(frame, slice.number);
    ASSERT_TRUE(parsed.ok());
    const Slice same = std::move(parsed).value();
    EXPECT_EQ(same.number, slice.number);
    EXPECT_EQ(same.messageBytes, slice.messageBytes);
    EXPECT_EQ(same.offset, slice.offset);
    EXPECT_EQ(same.bytes, slice.bytes);
  }
}

// A frame carries only the low 32 bits of its message's number, which has 64 bits.
TEST(FrameWire, SequenceNumbersContinueAfterWrap) {
  constexpr uint64_t wrap = uint64_t{1} << 32, farthest = (uint64_t{1} << 31) - 1;
  const auto isSeenAs = [](uint64_t number, uint64_t next) {
    Result<Slice> parsed = parseFrame(frameOf({number, 10, 0, 10}), next);
    return parsed.ok() ? std::move(parsed).value().number : ~uint64_t{0};
  };
  for (const uint64_t next : {uint64_t{0}, uint64_t{1}, wrap - 1, wrap, wrap + 1, 5 * wrap - 3, 5 * wrap + 70000})
    for (const uint64_t ahead : {uint64_t{0}, uint64_t{1}, uint64_t{5}, uint64_t{65536}, farthest})
      EXPECT_EQ(isSeenAs(next + ahead, next), next + ahead) << next << " + " << ahead;
  for (const uint64_t next : {uint64_t{1}, wrap, 5 * wrap + 1}) {
    const auto errorText = std::string(parseFrame(frameOf({next - 1, 10, 0, 10}), next).error().message());
    EXPECT_NE(errorText.find("corrupt: a slice of message " + std::to_string((next - 1) % wrap)), std::string::npos)
        << errorText;
    EXPECT_FALSE(parseFrame(frameOf({next + farthest + 1, 10, 0, 10}), next).ok());
  }
}

TEST(FrameWire, CorruptionIsDetected) {
  const auto accepts = [](const Slice& slice) { return parseFrame(frameOf(slice), 3).ok(); };
  EXPECT_FALSE(accepts({3, 10, 0, 11})) << "more than the message";
  EXPECT_FALSE(accepts({3, 10, 5, 6})) << "beyond its end";
  EXPECT_FALSE(accepts({3, 10, 0xffffffff, 1})) << "far beyond its end";
  EXPECT_FALSE(accepts({3, 10, 5, 0})) << "an empty slice of a message";
  EXPECT_FALSE(accepts({3, 0, 0, 1})) << "a slice of an empty message";
  std::vector<uint8_t> frame = frameOf({3, 10, 0, 9});
  EXPECT_TRUE(parseFrame(frame, 3).ok());
  for (size_t length = 0; length < frame.size(); ++length)
    EXPECT_FALSE(parseFrame(std::span(frame).first(length), 3).ok()) << "only " << length;
  frame[16] = 10;
  const uint32_t check = crc32c(frame.data() + 12, 8, crc32c(frame.data(), 8));
  std::memcpy(frame.data() + 20, &check, sizeof check);
  EXPECT_NE(std::string(parseFrame(frame, 3).error().message()).find("not within"), std::string::npos)
      << "a slice of the whole message";
  for (size_t length = 0; length < stream::kFrameBytes; ++length)
    EXPECT_FALSE(parseFrame(std::span<const uint8_t>(frameOf({0, 10, 0, 10})).first(length), 0).ok()) << length;
}

// A reader uses the length in a frame only if the frame's checksum matches. So no reader waits for the rest of a
// corrupt frame.
TEST(FrameWire, EveryFlippedBitIsDetected) {
  for (const Slice& slice : {Slice{3, 10, 0, 10}, Slice{3, 10, 2, 5}, Slice{3, 0, 0, 0}}) {
    const std::vector<uint8_t> right = frameOf(slice);
    for (size_t bit = 0; bit < right.size() * 8; ++bit) {
      std::vector<uint8_t> frame = right;
      frame[bit / 8] = static_cast<uint8_t>(frame[bit / 8] ^ (1U << (bit % 8)));
      EXPECT_FALSE(parseFrame(frame, 3).ok()) << bit;
      const bool inFirstHalf = bit < stream::kFrameBytes * 8;
      EXPECT_EQ(stream::frameBytesOf(std::span<const uint8_t>(frame)).ok(), !inFirstHalf) << bit;
    }
  }
}

TEST(AllWire, RandomBytesAreRejectedOrRoundTrip) {
  std::minstd_rand random(11);
  for (int i = 0; i < 20000; ++i) {
    std::vector<uint8_t> bytes(random() % 140);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    EXPECT_FALSE(parseHandle(bytes).ok());
    const uint64_t next = random();
    if (Result<Slice> frame = parseFrame(bytes, next); frame.ok()) {
      const Slice slice = std::move(frame).value();
      EXPECT_EQ(frameOf(slice), std::vector<uint8_t>(bytes.begin(), bytes.begin() + frameOf(slice).size()));
      EXPECT_TRUE(slice.number - next < uint64_t{1} << 31 && slice.offset + slice.bytes <= slice.messageBytes);
    }
    EXPECT_FALSE(parseHello(bytes, someHandle().token).ok());
  }
}

}  // namespace
}  // namespace bps::plugin::tcp
