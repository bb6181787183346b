#include "net_plugin/verbs/wire.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "net_plugin/link/handle_extension.h"
#include "net_plugin/verbs/liveness_socket.h"

namespace bps::plugin::verbs {
namespace {

const GidBytes kGid{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

QueuePairInfo someOffer() {
  return {.link = LinkLayer::kEthernet,
          .mtu = 5,
          .write = true,
          .lid = 0x1234,
          .queuePair = 0xabcdef,
          .startPsn = 0x123456,
          .pieceBytes = 8U << 20,
          .gid = kGid};
}

TEST(VerbsExtension, DoesNotOverlapOtherHandleFields) {
  tcp::HandleData data{Address(), {}};
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  data.address = Address(reinterpret_cast<const sockaddr*>(&v4), sizeof v4);
  data.address.setPort(77);
  tcp::HandleBytes handle = tcp::encodeHandle(data);
  EXPECT_FALSE(readVerbsExtension(handle).has_value());
  link::writeShmExtension(handle, 42);
  EXPECT_FALSE(readVerbsExtension(handle).has_value());
  writeVerbsExtension(handle, {LinkLayer::kEthernet, kGid});
  ASSERT_TRUE(readVerbsExtension(handle).has_value());
  EXPECT_EQ(readVerbsExtension(handle)->link, LinkLayer::kEthernet);
  EXPECT_EQ(readVerbsExtension(handle)->gid, kGid);
  EXPECT_EQ(link::readShmExtension(handle), 42U);
  EXPECT_TRUE(tcp::parseHandle(handle).ok());
  for (size_t length = 0; length < handle.size(); ++length)
    EXPECT_FALSE(readVerbsExtension(std::span(handle).first(length)).has_value());
  for (const size_t at : {64U, 68U, 70U}) {  // positions of magic number, version and link layer
    tcp::HandleBytes bad = handle;
    bad[at] ^= 0x80;
    EXPECT_FALSE(readVerbsExtension(bad).has_value()) << "byte " << at;
  }
}

TEST(QueuePairInfo, RoundTrips) {
  Result<QueuePairInfo> parsed = parseQueuePairInfo(encodeQueuePairInfo(someOffer()));
  ASSERT_TRUE(parsed.ok());
  const QueuePairInfo info = std::move(parsed).value();
  EXPECT_EQ(encodeQueuePairInfo(info), encodeQueuePairInfo(someOffer()));
  EXPECT_EQ(info.queuePair, 0xabcdefU);
  EXPECT_EQ(info.pieceBytes, 8U << 20);
  EXPECT_TRUE(info.write);
  EXPECT_EQ(info.gid, kGid);
}

TEST(QueuePairInfo, InvalidBytesAreRefused) {
  const QueuePairInfoBytes good = encodeQueuePairInfo(someOffer());
  for (size_t length = 0; length < 44; ++length) EXPECT_FALSE(parseQueuePairInfo(std::span(good).first(length)).ok());
  for (size_t at = 0; at < 6; ++at) {
    QueuePairInfoBytes bad = good;
    bad[at] ^= 1;
    EXPECT_FALSE(parseQueuePairInfo(bad).ok()) << "byte " << at;
  }
  const auto refused = [](auto change) {
    QueuePairInfo info = someOffer();
    change(info);
    return !parseQueuePairInfo(encodeQueuePairInfo(info)).ok();
  };
  EXPECT_TRUE(refused([](QueuePairInfo& info) { info.link = static_cast<LinkLayer>(0); }));
  EXPECT_TRUE(refused([](QueuePairInfo& info) { info.link = static_cast<LinkLayer>(3); }));
  EXPECT_TRUE(refused([](QueuePairInfo& info) { info.mtu = 0; }));
  EXPECT_TRUE(refused([](QueuePairInfo& info) { info.mtu = 6; }));
  EXPECT_TRUE(refused([](QueuePairInfo& info) { info.queuePair = 1U << 24; }));
  EXPECT_TRUE(refused([](QueuePairInfo& info) { info.startPsn = 1U << 24; }));
  EXPECT_TRUE(refused([](QueuePairInfo& info) { info.pieceBytes = 4095; }));
  EXPECT_FALSE(refused([](QueuePairInfo& info) { info.pieceBytes = 4096; }));
}

TEST(VerbsNotice, RoundTrips) {
  for (const Notice::Kind kind : {Notice::Kind::kReady, Notice::Kind::kTooLarge, Notice::Kind::kGoodbye}) {
    Result<Notice> parsed = parseNotice(encodeNotice({kind, 7, 9}));
    ASSERT_TRUE(parsed.ok());
    const Notice notice = std::move(parsed).value();
    EXPECT_EQ(notice.kind, kind);
    EXPECT_EQ(notice.number, 7U);
    EXPECT_EQ(notice.bytes, 9U);
  }
  const NoticeBytes good = encodeNotice({});
  for (size_t length = 0; length < good.size(); ++length) EXPECT_FALSE(parseNotice(std::span(good).first(length)).ok());
  EXPECT_FALSE(parseNotice(encodeNotice({static_cast<Notice::Kind>(0), 0, 0})).ok());
  EXPECT_FALSE(parseNotice(encodeNotice({static_cast<Notice::Kind>(4), 0, 0})).ok());
}

TEST(VerbsLivenessSocket, FragmentedMessagesArriveBeforeTheHangup) {
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets), 0);
  LivenessSocket socket((UniqueFd(sockets[0])));
  UniqueFd other(sockets[1]);
  NoticeBytes received{};
  EXPECT_EQ(socket.receiveMessage(received), LivenessSocket::Event::kNothing);
  const NoticeBytes notice = encodeNotice({Notice::Kind::kGoodbye, 3, 0});
  for (size_t i = 0; i < notice.size(); ++i) {
    EXPECT_EQ(socket.receiveMessage(received), LivenessSocket::Event::kNothing) << i;
    ASSERT_EQ(::send(other.get(), &notice[i], 1, 0), 1);
  }
  EXPECT_EQ(socket.receiveMessage(received), LivenessSocket::Event::kMessage);
  EXPECT_EQ(received, notice);
  ASSERT_TRUE(socket.sendMessage(notice).ok());
  ASSERT_EQ(::send(other.get(), notice.data(), 5, 0), 5);
  EXPECT_EQ(socket.receiveMessage(received), LivenessSocket::Event::kNothing);
  other.reset();
  EXPECT_EQ(socket.receiveMessage(received), LivenessSocket::Event::kHangup);
  EXPECT_FALSE(socket.sendMessage(notice).ok());
}

}  // namespace
}  // namespace bps::plugin::verbs
