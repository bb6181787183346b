#include "src/wire/control_messages.h"
#include "src/base/io/host_lookup.h"

#include <gtest/gtest.h>

#include <random>

namespace bps {
namespace {

Address address(const char* text) {
  const HostPort where = std::move(parseHostPort(text, 0)).value();
  return std::move(resolve(where, Deadline::in(std::chrono::seconds(2)))).value().front();
}

// Calls f with a message of every type. The fields of the messages differ from their defaults.
template <class F>
void forEachMessage(F&& f) {
  Nonce nonce{};
  nonce.fill(7);
  f(Hello{Hello::kMagic, 3, Purpose::kServer, false, 99, nonce, nonce, "10.1.2.3:77"});
  f(Challenge{5, nonce, nonce});
  f(ProofMessage{nonce});
  f(Welcome{nonce});
  f(Refusal{Refusal::Kind::kBusy, Code::kInvalidUsage, "no"});
  f(RendezvousRequest{1, 2, 3, true, address("10.1.2.3:77")});
  f(RendezvousRequest{1, 2, 3, false, {}});
  f(RendezvousReply{address("[fe80::1]:99")});
  f(Join{1, 2, 3, 4, 5, "id", "name", 1.5, address("10.1.2.3:77"), "0, 3", "bcube:n=2,k=2", 6});
  f(Offer{1, 2.5});
  f(OpenJob{1, 2, {1, 2, 3}});
  f(JobOpened{4});
  f(ControlOpInput{ControlOp::kBarrier, 1, 2, {{1}, {}, {2, 3}}});
  f(ControlOpResult{ControlOp::kExchange, 1, {{}, {9}}, {}});
  f(ControlOpResult{ControlOp::kSplit, 1, {}, "late"});
  f(FailureMessage{Code::kTimeout, "late"});
  f(Suspect{3, "gone"});
  f(Left{6});
  f(ProbeDevice{2, "eth0", address("10.1.2.3:0")});
  f(ProbeOpen{1, 2, 3, {4, 5}});
  f(ProbeOpened{{6}});
  f(ProbeRate{7.5});
  f(CheckReport{1, 2, 3, 4, 5});
  f(Heartbeat{8, 7, 3});
}

TEST(ControlMessages, RoundTrip) {
  forEachMessage([](const auto& message) {
    using T = std::decay_t<decltype(message)>;
    const Blob bytes = encode(message);
    Result<T> back = decode<T>(bytes);
    ASSERT_TRUE(back.ok()) << back.error().message();
    EXPECT_EQ(encode(std::move(back).value()), bytes);
  });
  const RendezvousReply redirect{address("[fe80::1]:99")};
  EXPECT_EQ(std::move(decode<RendezvousReply>(encode(redirect))).value().hub.text(), "[fe80::1]:99");
  EXPECT_EQ(std::move(decode<RendezvousReply>(encode(RendezvousReply{address("10.1.2.3:77")}))).value().hub.text(),
            "10.1.2.3:77");
}

TEST(ControlMessages, TruncationAndTrailingBytesAreRefused) {
  forEachMessage([](const auto& message) {
    using T = std::decay_t<decltype(message)>;
    Blob bytes = encode(message);
    for (size_t size = 0; size < bytes.size(); ++size)
      EXPECT_FALSE(decode<T>(std::span(bytes).first(size)).ok()) << size << " of " << bytes.size();
    bytes.push_back(0);
    EXPECT_FALSE(decode<T>(bytes).ok());
  });
}

TEST(ControlMessages, MalformedBytesAreRefusedSafely) {
  std::mt19937 random(1);
  forEachMessage([&](const auto& message) {
    using T = std::decay_t<decltype(message)>;
    const Blob good = encode(message);
    for (int turn = 0; turn < 2000; ++turn) {
      Blob bytes = good;
      for (int change = 0; change < 3; ++change) bytes[random() % bytes.size()] = static_cast<uint8_t>(random());
      Result<T> decoded = decode<T>(bytes);
      if (!decoded.ok()) continue;
      EXPECT_EQ(encode(std::move(decoded).value()), bytes);
    }
  });
}

TEST(ControlMessages, ValuesOutOfRangeAreRefused) {
  EXPECT_FALSE(decode<Hello>(encode(Hello{Hello::kMagic, 1, static_cast<Purpose>(9), true, 0, {}, {}, {}})).ok());
  EXPECT_FALSE(decode<FailureMessage>(encode(FailureMessage{Code::kOk, "no failure"})).ok());
  EXPECT_FALSE(decode<FailureMessage>(encode(FailureMessage{static_cast<Code>(99), ""})).ok());
  EXPECT_FALSE(decode<Offer>(encode(Offer{1, -1.0})).ok());
  EXPECT_FALSE(decode<Offer>(encode(Offer{1, std::numeric_limits<double>::quiet_NaN()})).ok());
  EXPECT_FALSE(decode<ControlOpInput>(encode(ControlOpInput{static_cast<ControlOp>(5), 0, 0, {}})).ok());
}

TEST(ControlMessages, LongTextsAreTruncatedBySender) {
  const std::string text(100'000, 'x');
  Result<FailureMessage> back = decode<FailureMessage>(encode(FailureMessage{Code::kRemote, text}));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(std::move(back).value().text.size(), 4096U);
}

}  // namespace
}  // namespace bps
