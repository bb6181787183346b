#include "src/control/relay/relay_messages.h"

#include "src/control/relay/relay_targets.h"
#include "tests/unit/control/cluster.h"

namespace bps::test {
namespace {

TEST(RelayMessages, RoundTrip) {
  RelayRequest request{RelayRequest::Kind::kAsk, loopback(4711)};
  auto asked = decodeRelayRequest(encodeRelay(request));
  ASSERT_TRUE(asked.ok()) << asked.error().message();
  EXPECT_EQ(std::move(asked).value().target.text(), "127.0.0.1:4711");

  const RelayReply reply{RelayReply::Outcome::kConnected, {{3, "c"}, {1, std::string(100, 'h')}}};
  auto answered = decodeRelayReply(encodeRelay(reply));
  ASSERT_TRUE(answered.ok()) << answered.error().message();
  EXPECT_EQ(hopsText(std::move(answered).value().hops),
            "rank 3 (c), then rank 1 (" + std::string(RelayReply::kHostBytes, 'h') + ")");
}

TEST(RelayMessages, FieldsOutOfRangeAreRefused) {
  const auto request = encodeRelay(RelayRequest{RelayRequest::Kind::kForward, loopback(4711)});
  const auto reply = encodeRelay(RelayReply{RelayReply::Outcome::kConnected, {{3, "c"}}});
  const auto requestWith = [&](size_t at, uint8_t byte) {
    auto bytes = request;
    bytes[at] = byte;
    return decodeRelayRequest(bytes);
  };
  const auto replyWith = [&](size_t at, uint8_t byte) {
    auto bytes = reply;
    bytes[at] = byte;
    return decodeRelayReply(bytes);
  };
  EXPECT_STREQ(requestWith(0, 0).error().message(), "the other side is no relay of bps");
  EXPECT_STREQ(requestWith(4, 9).error().message(),
               "the other side has version 9 of the relay protocol, this one has version 1");
  EXPECT_FALSE(requestWith(6, 0).ok()) << "the kind";
  EXPECT_FALSE(requestWith(6, 3).ok()) << "the kind";
  EXPECT_FALSE(requestWith(7, 5).ok()) << "the length of the IP address";
  EXPECT_FALSE(replyWith(0, 0).ok());
  EXPECT_FALSE(replyWith(6, 0).ok()) << "the outcome";
  EXPECT_FALSE(replyWith(6, 6).ok()) << "the outcome";
  EXPECT_FALSE(replyWith(7, RelayReply::kMaxHops + 1).ok()) << "the number of hops";
  EXPECT_FALSE(replyWith(7, 0).ok()) << "a connection without a hop";
  EXPECT_TRUE(replyWith(12, 255).ok()) << "the length of a name is cut";
  EXPECT_EQ(std::move(replyWith(13, '\n')).value().hops[0].host, "?");
}

TEST(RelayTargets, FindsWhatACommunicatorHasReached) {
  RelayTargets targets;
  const auto outcome = [&] { return targets.find(loopback(1)).outcome; };
  EXPECT_EQ(outcome(), RelayReply::Outcome::kUnknown);
  const auto first = targets.add({2, "b"}, 4), second = targets.add({5, "b"}, 8);
  targets.expect(first, loopback(1));
  EXPECT_EQ(outcome(), RelayReply::Outcome::kNotYet);
  targets.reached(second, loopback(1), {loopback(9), {{7, "x"}}});
  ASSERT_EQ(outcome(), RelayReply::Outcome::kConnected);
  EXPECT_EQ(targets.find(loopback(1)).self.rank, 5U);
  EXPECT_EQ(targets.find(loopback(1)).way.hops.at(0).rank, 7U);
  EXPECT_EQ(targets.find(loopback(2)).outcome, RelayReply::Outcome::kUnknown);
  EXPECT_EQ(targets.maxConnections(), 64U + 2 * 12);
  targets.remove(second);
  EXPECT_EQ(outcome(), RelayReply::Outcome::kNotYet);
  targets.remove(first);
  EXPECT_EQ(outcome(), RelayReply::Outcome::kUnknown);
}

}  // namespace
}  // namespace bps::test
