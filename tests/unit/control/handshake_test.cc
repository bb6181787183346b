// The handshake and the doorman against every kind of peer.
#include "src/control/link/handshake.h"

#include <sys/socket.h>

#include <filesystem>

#include "src/control/keys/secret.h"
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
  std::string connecting, accepting;  // the failures' texts, or "ok"
  uint64_t connectingJob = 0, acceptingJob = 0;
};

struct SideArgs {
  Credentials credentials;
  Purpose purpose = Purpose::kJoin;
  uint64_t job = 0;
};

Outcome shake(const SideArgs& connecting, const SideArgs& accepting) {
  Sides sides = sockets();
  ConnectingHandshake left(std::move(sides.connecting), connecting.credentials, connecting.purpose, connecting.job);
  AcceptingHandshake right(std::move(sides.accepting), accepting.credentials, accepting.purpose, accepting.job);
  Outcome outcome;
  std::thread other([&] {
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

TEST(Handshake, EqualKeysMeet) {
  const Outcome outcome = shake({{keyOf(1)}}, {{keyOf(1)}, Purpose::kJoin, 55});
  EXPECT_EQ(outcome.connecting, "ok");
  EXPECT_EQ(outcome.accepting, "ok");
  EXPECT_EQ(outcome.connectingJob, 55U);
  EXPECT_EQ(outcome.acceptingJob, 55U);
}

TEST(Handshake, TheConnectingSideMayBringTheJob) {
  const Outcome outcome = shake({{keyOf(1)}, Purpose::kServer, 66}, {{keyOf(1)}, Purpose::kServer, 0});
  EXPECT_EQ(outcome.connecting, "ok");
  EXPECT_EQ(outcome.acceptingJob, 66U);
}

TEST(Handshake, AnotherKeyIsNamedOnBothSides) {
  const Outcome outcome = shake({{keyOf(1)}}, {{keyOf(2)}});
  EXPECT_EQ(outcome.connecting, outcome.accepting);
  EXPECT_EQ(outcome.accepting, "authentication failed: the key differs (BPS_KEY_FILE, or the unique id)");
}

TEST(Handshake, AnotherModeIsNamedOnBothSides) {
  const Outcome outcome = shake({{keyOf(1), false}}, {{keyOf(1), true}});
  EXPECT_EQ(outcome.connecting, "authentication is on here and off on the other side (BPS_AUTH)");
  EXPECT_EQ(shake({{keyOf(1), false}}, {{keyOf(2), false}}).connecting, "ok") << "off on both: keys do not matter";
}

TEST(Handshake, AnotherPurposeIsNamed) {
  const Outcome outcome = shake({{keyOf(1)}, Purpose::kServer, 1}, {{keyOf(1)}, Purpose::kJoin, 1});
  EXPECT_EQ(outcome.connecting, "connection for the purpose \"server\", this is an address for \"join\"");
}

TEST(Handshake, ProofsFitOneSideAndOneTranscript) {
  Transcript transcript;
  transcript.add(Blob{1, 2}, Blob{3});
  const Proof proof = makeProof(keyOf(9), Side::kConnecting, transcript.hash());
  EXPECT_TRUE(sameProof(proof, makeProof(keyOf(9), Side::kConnecting, transcript.hash())));
  EXPECT_FALSE(sameProof(proof, makeProof(keyOf(8), Side::kConnecting, transcript.hash())));
  EXPECT_FALSE(sameProof(proof, makeProof(keyOf(9), Side::kAccepting, transcript.hash()))) << "reflection";
  transcript.add({}, {});
  EXPECT_FALSE(sameProof(proof, makeProof(keyOf(9), Side::kConnecting, transcript.hash())));
}

// What an accepting side says to the given bytes, coming one at a time: its failure and its refusal.
std::pair<std::string, std::string> say(const Blob& bytes) {
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

TEST(Handshake, AByteAtATimeIsAsGoodAsAll) {
  EXPECT_EQ(say(helloBytes({})), (std::pair<std::string, std::string>("pending", "")));
}

std::string versionText(int theirs) {
  return "protocol version " + std::to_string(theirs) + ", this side speaks " + std::to_string(kControlVersion) +
         "; rebuild one side";
}

TEST(Handshake, AnotherVersionIsNamedWhereverItShows) {
  const std::string text = versionText(9);
  Hello hello;
  hello.version = 9;
  EXPECT_EQ(say(helloBytes(hello)), std::pair(text, text));
  EXPECT_EQ(say(helloBytes(hello, kControlVersion)), std::pair(text, text));
  Blob longer = helloBytes(hello, kControlVersion);
  longer.resize(longer.size() + 100);
  longer[0] = static_cast<uint8_t>(longer[0] + 100);  // a Hello that has grown
  EXPECT_EQ(say(longer), std::pair(text, text));
}

TEST(Handshake, AnotherMagicIsRefused) {
  Hello hello;
  hello.magic = 0x20544547;  // "GET "
  EXPECT_EQ(say(helloBytes(hello)).second, "wrong magic: not a peer of this protocol");
  EXPECT_EQ(say(helloBytes({}, kControlVersion, MessageType::kJoin)).second,
            "wrong magic: not a peer of this protocol");
}

TEST(Handshake, OtherProtocolsAreCutOff) {
  const std::string http = "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n";
  const auto [text, refusal] = say({http.begin(), http.end()});
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

TEST(Dialer, ANewerPeerIsNotTriedAgain) {
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
    header.version = 9;
    const auto bytes = encode(header);
    EXPECT_EQ(::send(peer->fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  EXPECT_EQ(progress.error().message(), "frame of " + versionText(9));
  EXPECT_LT(Deadline::Clock::now() - start, 1s);
}

TEST(Doorman, StrangersAreBoundedInNumberAndTime) {
  Credentials credentials{keyOf(1), true, 400};
  Doorman doorman = std::move(Doorman::create(loopback(), credentials, Purpose::kJoin, 1)).value();
  const Address where = std::move(doorman.address()).value();
  std::vector<UniqueFd> strangers;
  for (size_t i = 0; i < 2 * Doorman::kMostStrangers; ++i) strangers.push_back(connectTo(where));
  size_t most = 0;
  const Deadline deadline = soon(0.6);
  PollSet set;
  const auto open = [] {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
    return count;
  };
  const size_t before = open();
  while (!deadline.passed()) {
    set.clear();
    doorman.watch(set);
    set.wakeAt(deadline.at());
    ASSERT_TRUE(set.wait().ok());
    EXPECT_TRUE(doorman.step(set).empty());
    most = std::max(most, open() - before);
  }
  size_t cutOff = 0;
  for (const UniqueFd& stranger : strangers) {
    char byte = 0;
    if (::recv(stranger.get(), &byte, 1, 0) == 0) ++cutOff;
  }
  EXPECT_GE(cutOff, Doorman::kMostStrangers) << "the first have had their time, 0.2 s";
  // Those under way and those that are being told why not.
  EXPECT_LE(most, 2 * Doorman::kMostStrangers + 1);
}

}  // namespace
}  // namespace bps::test
