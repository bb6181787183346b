// Tests the encryption and authentication of control connections. After the handshake, a third party must not be able
// to read, change, repeat, reorder or forge a frame. If a third party changes a byte of the handshake, the connection
// must end.
#include "src/control/keys/seal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

#include "tests/unit/control/keys/man_in_the_middle.h"

namespace bps::test {
namespace {

Credentials credentials(bool auth = true) {
  Credentials made;
  made.key.fill(7);
  made.auth = auth;
  return made;
}

Blob textBlob(const std::string& text) { return {text.begin(), text.end()}; }

Blob frameOfLeft(ManInTheMiddle& middle, const std::string& text) {
  middle.left().queue(FailureMessage{Code::kRemote, text});
  return middle.takeFromLeft();
}

// Reads from the socket. Returns the text of a failure message, "nothing", or the error that ends the connection.
std::string readBy(ControlSocket& socket) {
  Result<std::optional<Frame>> came = socket.read();
  if (!came.ok()) return came.error().message();
  const std::optional<Frame> frame = std::move(came).value();
  if (!frame) return "nothing";
  Result<FailureMessage> message = decode<FailureMessage>(frame->payload);
  return message.ok() ? std::move(message).value().text : message.error().message();
}

void expectForged(ControlSocket& socket, uint32_t number) {
  EXPECT_EQ(readBy(socket), "frame " + std::to_string(number) + " from " + socket.peer() +
                                " is not authentic: something between the two changes or injects messages");
  EXPECT_EQ(socket.end(), ControlSocket::End::kForged);
}

Blob operator+(Blob a, const Blob& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TEST(Seal, FramesArriveEncrypted) {
  ManInTheMiddle middle(credentials());
  ASSERT_TRUE(middle.connected() && middle.accepted());
  const Blob secret = textBlob("a token of sixteen bytes"), seen = frameOfLeft(middle, "a token of sixteen bytes");
  EXPECT_EQ(std::search(seen.begin(), seen.end(), secret.begin(), secret.end()), seen.end());
  middle.sendToRight(seen);
  EXPECT_EQ(readBy(middle.right()), "a token of sixteen bytes");
  middle.left().queue(MessageType::kHeartbeat);
  middle.sendToRight(middle.takeFromLeft());
  Result<std::optional<Frame>> beat = middle.right().read();
  ASSERT_TRUE(beat.ok());
  EXPECT_EQ(std::move(beat).value()->header.bytes, 0U);
}

TEST(Seal, EveryFlippedBitOfAFrameIsDetected) {
  const size_t size = [] {
    ManInTheMiddle middle(credentials());
    return frameOfLeft(middle, "true").size();
  }();
  EXPECT_EQ(size, kFrameHeaderBytes + 2 * kFrameTagBytes + 12);
  for (bool auth : {true, false}) {
    for (size_t bit = 0; bit < 8 * size; ++bit) {
      ManInTheMiddle middle(credentials(auth));
      Blob bytes = frameOfLeft(middle, "true");
      ASSERT_EQ(bytes.size(), size);
      bytes[bit / 8] = static_cast<uint8_t>(bytes[bit / 8] ^ (1U << bit % 8));
      middle.sendToRight(bytes);
      expectForged(middle.right(), 2);
      if (HasFailure()) FAIL() << "bit " << bit;
    }
  }
}

TEST(Seal, ReplayedAndReorderedFramesAreRefused) {
  ManInTheMiddle swapped(credentials());
  const Blob first = frameOfLeft(swapped, "first"), second = frameOfLeft(swapped, "second");
  swapped.sendToRight(second + first);
  expectForged(swapped.right(), 2);

  ManInTheMiddle replayed(credentials());
  const Blob frame = frameOfLeft(replayed, "once");
  replayed.sendToRight(frame + frame);
  EXPECT_EQ(readBy(replayed.right()), "once");
  expectForged(replayed.right(), 3);

  ManInTheMiddle dropped(credentials());
  frameOfLeft(dropped, "lost");
  dropped.sendToRight(frameOfLeft(dropped, "later"));
  expectForged(dropped.right(), 2);
}

TEST(Seal, TruncatedFrameIsRefused) {
  for (size_t kept : {size_t{10}, kFrameHeaderBytes, kFrameHeaderBytes + kFrameTagBytes, size_t{50}}) {
    ManInTheMiddle middle(credentials());
    Blob cut = frameOfLeft(middle, "the first");
    cut.resize(kept);
    middle.sendToRight(cut);
    EXPECT_EQ(readBy(middle.right()), "nothing");
    middle.sendToRight(frameOfLeft(middle, "the second"));
    expectForged(middle.right(), 2);
  }
  ManInTheMiddle ended(credentials());
  Blob cut = frameOfLeft(ended, "the first");
  cut.pop_back();
  ended.sendToRight(cut);
  ended.hangUpOnRight();
  EXPECT_EQ(readBy(ended.right()), "connection closed");
  EXPECT_TRUE(ended.right().broken());
}

TEST(Seal, FramesOfOtherConnectionsAreRefused) {
  ManInTheMiddle reflected(credentials());
  reflected.sendToLeft(frameOfLeft(reflected, "mine"));
  expectForged(reflected.left(), 2);

  ManInTheMiddle one(credentials()), other(credentials());
  other.sendToRight(frameOfLeft(one, "from another connection of the same key"));
  expectForged(other.right(), 2);

  ManInTheMiddle injected(credentials());
  FrameHeader header;
  header.type = MessageType::kFailure;
  header.job = 55;
  header.sequence = 2;
  const Blob payload = encode(FailureMessage{Code::kRemote, "forged"});
  header.bytes = static_cast<uint32_t>(payload.size());
  const auto plain = encode(header);
  injected.sendToRight(Blob(plain.begin(), plain.end()) + payload + Blob(64));
  expectForged(injected.right(), 2);
}

TEST(Seal, EveryChangedByteOfTheHandshakeIsDetected) {
  for (bool auth : {true, false}) {
    for (size_t frame = 0; frame < 4; ++frame) {
      for (size_t byte = 0; byte < 200; ++byte) {
        const ManInTheMiddle middle(credentials(auth), ManInTheMiddle::Change{frame, byte});
        if (middle.connected() && middle.accepted()) {
          EXPECT_GE(byte, kFrameHeaderBytes + 32) << "frame " << frame;
          break;  // `byte` is past the frame's end
        }
        EXPECT_FALSE(middle.connected()) << "frame " << frame << ", byte " << byte;
        EXPECT_EQ(middle.accepted(), frame == 3) << "frame " << frame << ", byte " << byte;
      }
    }
  }
}

// The session keys depend on the X25519 keys of both sides as well as on the shared key. So a recorded connection
// remains secret if the shared key leaks later.
TEST(Seal, SessionKeysDependOnEveryInput) {
  const KeyPair one, other, third;
  const Key shared{1};
  const auto keys = [](Result<SessionKeys> made) { return std::move(made).value().connecting; };
  const Key right = keys(sessionKeys(shared, one, other.publicKey(), {1}));
  EXPECT_EQ(keys(sessionKeys(shared, other, one.publicKey(), {1})), right);
  EXPECT_NE(keys(sessionKeys(shared, third, one.publicKey(), {1})), right);
  EXPECT_NE(keys(sessionKeys(Key{2}, one, other.publicKey(), {1})), right);
  EXPECT_NE(keys(sessionKeys(shared, one, other.publicKey(), {2})), right);
  EXPECT_NE(std::move(sessionKeys(shared, one, other.publicKey(), {1})).value().accepting, right);
}

TEST(Seal, InvalidPublicKeyIsRefused) {
  const KeyPair pair;
  EXPECT_FALSE(sessionKeys(Key{}, pair, PublicKey{}, {}).ok());
}

TEST(Seal, SequenceNumbersAreUsedOnce) {
  // The first sequence number leaves each side two frames for the handshake and one frame after it.
  ManInTheMiddle middle(credentials(), {}, std::numeric_limits<uint32_t>::max() - 2);
  ASSERT_TRUE(middle.connected() && middle.accepted());
  middle.sendToRight(frameOfLeft(middle, "the last"));
  EXPECT_EQ(readBy(middle.right()), "the last");
  EXPECT_EQ(frameOfLeft(middle, "one more"), Blob());
  EXPECT_EQ(readBy(middle.left()), "this connection has carried 2^32 frames, its limit");
  EXPECT_TRUE(middle.left().broken());
  middle.sendToRight(Blob(100));
  EXPECT_EQ(readBy(middle.right()), "this connection has carried 2^32 frames, its limit");
}

}  // namespace
}  // namespace bps::test
