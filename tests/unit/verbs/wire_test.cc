#include "net_plugin/verbs/wire.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include "net_plugin/link/door_sign.h"
#include "net_plugin/verbs/lifeline.h"

namespace bps::plugin::verbs {
namespace {

const GidBytes kGid{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

Offer someOffer() {
  return {.link = LinkLayer::kEthernet,
          .mtu = 5,
          .write = true,
          .lid = 0x1234,
          .queuePair = 0xabcdef,
          .firstPacket = 0x123456,
          .pieceBytes = 8U << 20,
          .gid = kGid};
}

TEST(VerbsSign, StandsBesideTheOthers) {
  tcp::HandleData data{Address(), {}};
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  data.address = Address(reinterpret_cast<const sockaddr*>(&v4), sizeof v4);
  data.address.setPort(77);
  tcp::HandleBytes handle = tcp::encodeHandle(data);
  EXPECT_FALSE(readSign(handle).has_value());
  link::writeDoor(handle, 42);
  EXPECT_FALSE(readSign(handle).has_value());
  writeSign(handle, {LinkLayer::kEthernet, kGid});
  ASSERT_TRUE(readSign(handle).has_value());
  EXPECT_EQ(readSign(handle)->link, LinkLayer::kEthernet);
  EXPECT_EQ(readSign(handle)->gid, kGid);
  EXPECT_EQ(link::readDoor(handle), 42U);
  EXPECT_TRUE(tcp::parseHandle(handle).ok());
  for (size_t length = 0; length < handle.size(); ++length)
    EXPECT_FALSE(readSign(std::span(handle).first(length)).has_value());
  for (const size_t at : {64U, 68U, 70U}) {  // magic, version, link
    tcp::HandleBytes bad = handle;
    bad[at] ^= 0x80;
    EXPECT_FALSE(readSign(bad).has_value()) << "byte " << at;
  }
}

TEST(VerbsOffer, ComesAsItWasSent) {
  Result<Offer> parsed = parseOffer(encodeOffer(someOffer()));
  ASSERT_TRUE(parsed.ok());
  const Offer offer = std::move(parsed).value();
  EXPECT_EQ(encodeOffer(offer), encodeOffer(someOffer()));
  EXPECT_EQ(offer.queuePair, 0xabcdefU);
  EXPECT_EQ(offer.pieceBytes, 8U << 20);
  EXPECT_TRUE(offer.write);
  EXPECT_EQ(offer.gid, kGid);
}

TEST(VerbsOffer, NothingElseIsTaken) {
  const OfferBytes good = encodeOffer(someOffer());
  for (size_t length = 0; length < 44; ++length) EXPECT_FALSE(parseOffer(std::span(good).first(length)).ok());
  for (size_t at = 0; at < 6; ++at) {
    OfferBytes bad = good;
    bad[at] ^= 1;
    EXPECT_FALSE(parseOffer(bad).ok()) << "byte " << at;
  }
  const auto refused = [](auto change) {
    Offer offer = someOffer();
    change(offer);
    return !parseOffer(encodeOffer(offer)).ok();
  };
  EXPECT_TRUE(refused([](Offer& offer) { offer.link = static_cast<LinkLayer>(0); }));
  EXPECT_TRUE(refused([](Offer& offer) { offer.link = static_cast<LinkLayer>(3); }));
  EXPECT_TRUE(refused([](Offer& offer) { offer.mtu = 0; }));
  EXPECT_TRUE(refused([](Offer& offer) { offer.mtu = 6; }));
  EXPECT_TRUE(refused([](Offer& offer) { offer.queuePair = 1U << 24; }));
  EXPECT_TRUE(refused([](Offer& offer) { offer.firstPacket = 1U << 24; }));
  EXPECT_TRUE(refused([](Offer& offer) { offer.pieceBytes = 4095; }));
  EXPECT_FALSE(refused([](Offer& offer) { offer.pieceBytes = 4096; }));
}

TEST(VerbsNotice, ComesAsItWasSent) {
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

TEST(VerbsLifeline, MessagesComeInPiecesAndThenTheEnd) {
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, sockets), 0);
  Lifeline lifeline((UniqueFd(sockets[0])));
  UniqueFd other(sockets[1]);
  NoticeBytes heard{};
  EXPECT_EQ(lifeline.hear(heard), Lifeline::Heard::kNothing);
  const NoticeBytes said = encodeNotice({Notice::Kind::kGoodbye, 3, 0});
  for (size_t i = 0; i < said.size(); ++i) {
    EXPECT_EQ(lifeline.hear(heard), Lifeline::Heard::kNothing) << i;
    ASSERT_EQ(::send(other.get(), &said[i], 1, 0), 1);
  }
  EXPECT_EQ(lifeline.hear(heard), Lifeline::Heard::kMessage);
  EXPECT_EQ(heard, said);
  ASSERT_TRUE(lifeline.say(said).ok());
  ASSERT_EQ(::send(other.get(), said.data(), 5, 0), 5);
  EXPECT_EQ(lifeline.hear(heard), Lifeline::Heard::kNothing);
  other.reset();
  EXPECT_EQ(lifeline.hear(heard), Lifeline::Heard::kHangup);
  EXPECT_FALSE(lifeline.say(said).ok());
}

}  // namespace
}  // namespace bps::plugin::verbs
