// Tests the control plane's handshake, and AuthListener, with valid and hostile peers.
#include "src/control/link/handshake.h"

#include <sys/socket.h>

#include <deque>

#include "src/base/io/host_lookup.h"
#include "src/control/keys/crypto.h"
#include "src/control/link/dialer.h"
#include "tests/unit/control/raw_peer.h"

namespace bps::test {
namespace {

Key keyOf(uint8_t fill) {
  Key key;
  key.fill(fill);
  return key;
}

struct Sides {
  std::unique_ptr<ControlSocket> connecting, accepting;
};

Sides sockets() {
  int fds[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
  return {std::make_unique<ControlSocket>(UniqueFd(fds[0])), std::make_unique<ControlSocket>(UniqueFd(fds[1]))};
}

struct Outcome {
  std::string connecting, accepting;  // the error of each side, or "ok"
  uint64_t connectingJob = 0, acceptingJob = 0;
};

struct SideArgs {
  Credentials credentials;
  Purpose purpose = Purpose::kJoin;
  uint64_t job = 0;
};

Outcome runHandshake(const SideArgs& connecting, const SideArgs& accepting) {
  Sides sides = sockets();
  ConnectingHandshake left(std::move(sides.connecting), connecting.credentials, connecting.purpose, connecting.job);
  AcceptingHandshake right(std::move(sides.accepting), accepting.credentials, accepting.purpose, accepting.job);
  Outcome outcome;
  std::jthread other([&] {
    const Status status = finish(right, 1);
    outcome.accepting = status.ok() ? "ok" : status.message();
  });
  const Status status = finish(left, 1);
  outcome.connecting = status.ok() ? "ok" : status.message();
  other.join();
  outcome.connectingJob = left.socket().job();
  outcome.acceptingJob = right.socket().job();
  return outcome;
}

TEST(Handshake, EqualKeysSucceed) {
  const Outcome outcome = runHandshake({{keyOf(1)}}, {{keyOf(1)}, Purpose::kJoin, 55});
  EXPECT_EQ(outcome.connecting, "ok");
  EXPECT_EQ(outcome.accepting, "ok");
  EXPECT_EQ(outcome.connectingJob, 55U);
  EXPECT_EQ(outcome.acceptingJob, 55U);
}

TEST(Handshake, ConnectingSideMayGiveTheJob) {
  const Outcome outcome = runHandshake({{keyOf(1)}, Purpose::kServer, 66}, {{keyOf(1)}, Purpose::kServer, 0});
  EXPECT_EQ(outcome.connecting, "ok");
  EXPECT_EQ(outcome.acceptingJob, 66U);
}

TEST(Handshake, DifferentKeysAreReportedOnBothSides) {
  const Outcome outcome = runHandshake({{keyOf(1)}}, {{keyOf(2)}});
  EXPECT_EQ(outcome.connecting, outcome.accepting);
  EXPECT_EQ(outcome.accepting, "authentication failed: the key differs (BPS_KEY_FILE, or the unique id)");
}

TEST(Handshake, DifferentModesAreReportedOnBothSides) {
  const Outcome outcome = runHandshake({{keyOf(1), false}}, {{keyOf(1), true}});
  EXPECT_EQ(outcome.connecting, "authentication is on here and off on the other side (BPS_AUTH)");
  EXPECT_EQ(runHandshake({{keyOf(1), false}}, {{keyOf(2), false}}).connecting, "ok")
      << "off on both: keys do not matter";
}

TEST(Handshake, DifferentPurposesAreReported) {
  const Outcome outcome = runHandshake({{keyOf(1)}, Purpose::kServer, 1}, {{keyOf(1)}, Purpose::kJoin, 1});
  EXPECT_EQ(outcome.connecting, "the connection is for \"server\", this address serves \"join\"");
}

TEST(Handshake, ProofIsValidForOneSideAndOneTranscript) {
  Transcript transcript;
  transcript.add(Blob{1, 2}, Blob{3});
  const Proof proof = makeProof(keyOf(9), HandshakeSide::kConnecting, transcript.hash());
  EXPECT_TRUE(sameProof(proof, makeProof(keyOf(9), HandshakeSide::kConnecting, transcript.hash())));
  EXPECT_FALSE(sameProof(proof, makeProof(keyOf(8), HandshakeSide::kConnecting, transcript.hash())));
  EXPECT_FALSE(sameProof(proof, makeProof(keyOf(9), HandshakeSide::kAccepting, transcript.hash()))) << "reflection";
  transcript.add({}, {});
  EXPECT_FALSE(sameProof(proof, makeProof(keyOf(9), HandshakeSide::kConnecting, transcript.hash())));
}

// Sends the bytes one at a time to the accepting side. Returns the error of that side, and the refusal that it sends.
std::pair<std::string, std::string> sendBytewise(const Blob& bytes) {
  Sides sides = sockets();
  AcceptingHandshake accepting(std::move(sides.accepting), {keyOf(1)}, Purpose::kJoin, 0);
  std::string text = "pending";
  for (uint8_t byte : bytes) {
    EXPECT_EQ(::send(sides.connecting->fd(), &byte, 1, MSG_NOSIGNAL), 1);
    Result<Progress> progress = accepting.step();
    if (progress.ok()) continue;
    text = progress.error().message();
    break;
  }
  [[maybe_unused]] const bool flushed = accepting.socket().flush().ok();
  const Frame answer = nextFrame(*sides.connecting, 0.1);
  if (answer.header.type != MessageType::kRefusal) return {text, ""};
  return {text, std::move(decode<Refusal>(answer.payload)).value().text};
}

Blob helloBytes(Hello hello, uint16_t frameVersion = kControlVersion, MessageType type = MessageType::kHello) {
  const Blob payload = encode(hello);
  FrameHeader header;
  header.bytes = static_cast<uint32_t>(payload.size());
  header.type = type;
  header.version = frameVersion;
  const auto head = encode(header);
  Blob bytes(head.size() + payload.size());
  std::copy(payload.begin(), payload.end(), std::copy(head.begin(), head.end(), bytes.begin()));
  return bytes;
}

TEST(Handshake, WorksOneByteAtATime) {
  EXPECT_EQ(sendBytewise(helloBytes({})), (std::pair<std::string, std::string>("pending", "")));
}

constexpr uint16_t kNewerVersion = kControlVersion + 1;

std::string versionText(int theirs) {
  return "protocol version " + std::to_string(theirs) + ", this side speaks " + std::to_string(kControlVersion) +
         "; rebuild one side";
}

TEST(Handshake, OtherVersionIsReportedForEveryFrame) {
  const std::string text = versionText(kNewerVersion);
  Hello hello;
  hello.version = kNewerVersion;
  EXPECT_EQ(sendBytewise(helloBytes(hello)), std::pair(text, text));
  EXPECT_EQ(sendBytewise(helloBytes(hello, kControlVersion)), std::pair(text, text));
  Blob longer = helloBytes(hello, kControlVersion);
  longer.resize(longer.size() + 100);
  longer[0] = static_cast<uint8_t>(longer[0] + 100);  // pretends to be a longer Hello of a later version
  EXPECT_EQ(sendBytewise(longer), std::pair(text, text));
}

TEST(Handshake, OtherMagicIsRefused) {
  Hello hello;
  hello.magic = 0x20544547;  // "GET "
  EXPECT_EQ(sendBytewise(helloBytes(hello)).second, "wrong magic: not a peer of this protocol");
  EXPECT_EQ(sendBytewise(helloBytes({}, kControlVersion, MessageType::kJoin)).second,
            "wrong magic: not a peer of this protocol");
}

TEST(Handshake, OtherProtocolsAreDisconnected) {
  const std::string http = "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n";
  const auto [text, refusal] = sendBytewise({http.begin(), http.end()});
  EXPECT_NE(text.find("not a peer of this protocol"), std::string::npos) << text;
  EXPECT_EQ(refusal, "");
}

TEST(Handshake, ProofBeforeHelloAndReplaysAreRefused) {
  Sides sides = sockets();
  AcceptingHandshake accepting(std::move(sides.accepting), {keyOf(1)}, Purpose::kJoin, 0);
  sides.connecting->queue(ProofMessage{});
  ASSERT_TRUE(sides.connecting->flush().ok());
  EXPECT_FALSE(accepting.step().ok());
}

TEST(Dialer, NewerPeerIsNotRetried) {
  UniqueFd listener = std::move(listenOn(loopback())).value();
  const Address where = std::move(localAddress(listener.get())).value();
  Dialer dialer({{where}, {keyOf(1)}, Purpose::kJoin, 0}, soon(2));
  std::unique_ptr<ControlSocket> peer;
  PollSet set;
  const auto start = Deadline::Clock::now();
  Result<Progress> progress = Progress::kPending;
  while (progress.ok()) {
    set.clear();
    dialer.watch(set);
    set.add(listener.get());
    ASSERT_TRUE(set.wait().ok());
    progress = dialer.step(set);
    std::optional<UniqueFd> fd = std::move(acceptFrom(listener.get())).value();
    if (!fd) continue;
    peer = std::make_unique<ControlSocket>(std::move(*fd));
    FrameHeader header;
    header.type = MessageType::kChallenge;
    header.version = kNewerVersion;
    const auto bytes = encode(header);
    EXPECT_EQ(::send(peer->fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  EXPECT_EQ(progress.error().message(), "frame of " + versionText(kNewerVersion));
  EXPECT_LT(Deadline::Clock::now() - start, 1s);
}

class AuthListenerTest : public testing::Test {
 protected:
  // Steps the listener until `done` returns true, or until `seconds` have passed.
  void stepUntil(const std::function<bool()>& done, double seconds = 5) {
    const Deadline deadline = soon(seconds);
    while (!done() && !deadline.passed()) {
      set_.clear();
      listener_.watch(set_);
      set_.wakeAt((Deadline::in(5ms)).at());
      ASSERT_TRUE(set_.wait().ok());
      for (Peer& peer : listener_.step(set_)) admitted_.push_back(std::move(peer));
    }
  }
  UniqueFd connectFrom(const char* host) {
    const Address from = std::move(resolve({host, 0}, soon())).value().front();
    UniqueFd fd = std::move(startConnect(where_, &from)).value();
    pollfd waiting{fd.get(), POLLOUT, 0};
    ::poll(&waiting, 1, 2000);
    return fd;
  }
  static bool closed(const UniqueFd& fd) {
    char byte = 0;
    return ::recv(fd.get(), &byte, 1, MSG_PEEK) == 0;
  }
  // Expects that the listener admits a peer with the key, although `attack` runs before each of the peer's steps.
  void expectAdmitted(const std::function<void()>& attack) {
    ConnectingHandshake handshake(std::make_unique<ControlSocket>(connectTo(where_)), {keyOf(1), true, 4000},
                                  Purpose::kJoin, 1);
    stepUntil([&] {
      attack();
      const Result<Progress> progress = handshake.step();
      EXPECT_TRUE(progress.ok()) << progress.error().message();
      return !progress.ok() || !admitted_.empty();
    });
    EXPECT_EQ(admitted_.size(), 1U);
  }

  Credentials credentials_{keyOf(1), true, 4000};
  AuthListener listener_ = std::move(AuthListener::create(loopback(), credentials_, Purpose::kJoin, 1)).value();
  const Address where_ = std::move(listener_.address()).value();
  PollSet set_;
  std::vector<Peer> admitted_;
};

TEST_F(AuthListenerTest, SilentConnectionsTimeOut) {
  std::vector<UniqueFd> unauthenticated;
  for (int i = 0; i < 10; ++i) unauthenticated.push_back(connectTo(where_));
  stepUntil([&] { return false; }, 1.5);
  EXPECT_FALSE(closed(unauthenticated[9])) << "the time is 2 s";
  stepUntil([&] { return closed(unauthenticated[9]); });
  for (const UniqueFd& peer : unauthenticated) EXPECT_TRUE(closed(peer));
}

TEST_F(AuthListenerTest, SurplusConnectionsEvictTheOldest) {
  std::vector<UniqueFd> unauthenticated;
  const size_t extra = 20;
  for (size_t i = 0; i < listener_.maxPending() + extra; ++i) {
    unauthenticated.push_back(connectTo(where_));
    if (i % 32 == 0) stepUntil([] { return true; });
  }
  stepUntil([&] { return closed(unauthenticated[extra - 1]); });
  for (size_t i = 0; i < extra; ++i) EXPECT_TRUE(closed(unauthenticated[i])) << i;
  EXPECT_FALSE(closed(unauthenticated[extra]));
  EXPECT_FALSE(closed(unauthenticated.back()));
}

TEST_F(AuthListenerTest, AddressWithMostConnectionsIsEvictedFirst) {
  const UniqueFd other = connectFrom("127.0.0.2");
  stepUntil([] { return false; }, 0.05);
  std::vector<UniqueFd> unauthenticated;
  for (size_t i = 0; i < listener_.maxPending() + 10; ++i) {
    unauthenticated.push_back(connectTo(where_));
    if (i % 32 == 0) stepUntil([&, left = 2]() mutable { return left-- == 0; });
  }
  stepUntil([&] { return closed(unauthenticated[10]); });
  EXPECT_TRUE(closed(unauthenticated[10]));
  EXPECT_FALSE(closed(other)) << "older than all of them, and the only one of its address";
}

TEST_F(AuthListenerTest, PeerWithTheKeyPassesDuringAConnectionFlood) {
  std::deque<UniqueFd> unauthenticated;
  const auto attack = [&] {
    for (int i = 0; i < 50; ++i) unauthenticated.push_back(connectTo(where_));
    while (unauthenticated.size() > 2 * listener_.maxPending()) unauthenticated.pop_front();
  };
  while (unauthenticated.size() + 50 < listener_.maxPending()) {
    attack();
    stepUntil([&, left = 2]() mutable { return left-- == 0; });
  }
  expectAdmitted(attack);
}

TEST_F(AuthListenerTest, PeerWithTheKeyPassesDuringAHelloFlood) {
  std::deque<UniqueFd> unauthenticated;
  Blob hello;
  {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()), 0);
    const UniqueFd other(ends[1]);
    ConnectingHandshake handshake(std::make_unique<ControlSocket>(UniqueFd(ends[0])), {Key{}, true, 4000},
                                  Purpose::kJoin, 1);
    ASSERT_TRUE(handshake.step().ok());
    hello.resize(4096);
    hello.resize(static_cast<size_t>(std::max<ssize_t>(0, ::recv(other.get(), hello.data(), hello.size(), 0))));
    ASSERT_GT(hello.size(), kFrameHeaderBytes);
  }
  const auto attack = [&] {
    for (int i = 0; i < 50; ++i) {
      unauthenticated.push_back(connectTo(where_));
      EXPECT_GT(::send(unauthenticated.back().get(), hello.data(), hello.size(), MSG_NOSIGNAL), 0);
    }
    while (unauthenticated.size() > 3 * listener_.maxPending()) unauthenticated.pop_front();
  };
  while (unauthenticated.size() < 2 * listener_.maxPending()) {
    attack();
    stepUntil([&, left = 2]() mutable { return left-- == 0; });
  }
  expectAdmitted(attack);
}

TEST_F(AuthListenerTest, RefusedPeersDoNotDelayShutdown) {
  const UniqueFd peer = connectTo(where_);
  const Blob garbage(64, 0x55);
  ASSERT_GT(::send(peer.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
  stepUntil([&] { return false; }, 0.1);
  EXPECT_TRUE(listener_.idle());
}

TEST_F(AuthListenerTest, NewKeyAppliesToNewHandshakes) {
  const UniqueFd before = connectTo(where_);
  listener_.useKey(keyOf(2));
  ConnectingHandshake handshake(std::make_unique<ControlSocket>(connectTo(where_)), {keyOf(2), true, 4000},
                                Purpose::kJoin, 1);
  stepUntil([&] {
    EXPECT_TRUE(handshake.step().ok());
    return !admitted_.empty();
  });
  EXPECT_EQ(admitted_.size(), 1U);
}

}  // namespace
}  // namespace bps::test
