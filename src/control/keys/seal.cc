#include "src/control/keys/seal.h"

#include <sodium.h>

namespace bps {
namespace {

static_assert(crypto_aead_chacha20poly1305_ietf_KEYBYTES == std::tuple_size_v<Key>);
static_assert(crypto_aead_chacha20poly1305_ietf_ABYTES == kFrameTagBytes);

enum class FrameSection : uint8_t { kHeader = 0, kPayload = 1 };
using AeadNonce = std::array<uint8_t, crypto_aead_chacha20poly1305_ietf_NPUBBYTES>;

AeadNonce nonce(uint32_t sequence, FrameSection part) {
  AeadNonce bytes{};
  for (size_t i = 0; i < sizeof sequence; ++i) bytes[i] = static_cast<uint8_t>(sequence >> (8 * i));
  bytes[sizeof sequence] = static_cast<uint8_t>(part);
  return bytes;
}

}  // namespace

Seal::Seal(const SessionKeys& keys, HandshakeSide mine)
    : mine_(mine == HandshakeSide::kConnecting ? keys.connecting : keys.accepting),
      theirs_(mine == HandshakeSide::kConnecting ? keys.accepting : keys.connecting) {}

void Seal::seal(FrameHeader header, std::span<const uint8_t> payload, Blob& out) const {
  header.bytes = static_cast<uint32_t>(payload.size() + kFrameTagBytes);
  const auto plain = encode(header);
  const size_t at = out.size();
  out.resize(at + plain.size() + kFrameTagBytes + payload.size() + kFrameTagBytes);
  uint8_t* place = std::copy(plain.begin(), plain.end(), out.data() + at);
  const AeadNonce first = nonce(header.sequence, FrameSection::kHeader),
                  second = nonce(header.sequence, FrameSection::kPayload);
  crypto_aead_chacha20poly1305_ietf_encrypt(place, nullptr, nullptr, 0, plain.data(), plain.size(), nullptr,
                                            first.data(), mine_.data());
  crypto_aead_chacha20poly1305_ietf_encrypt(place + kFrameTagBytes, nullptr, payload.data(), payload.size(),
                                            plain.data(), plain.size(), nullptr, second.data(), mine_.data());
}

bool Seal::isAuthenticHeader(uint32_t sequence, TaggedHeader header) const {
  const auto plain = header.first<kFrameHeaderBytes>();
  const auto tag = header.last<kFrameTagBytes>();
  return crypto_aead_chacha20poly1305_ietf_decrypt(nullptr, nullptr, nullptr, tag.data(), tag.size(), plain.data(),
                                                   plain.size(), nonce(sequence, FrameSection::kHeader).data(),
                                                   theirs_.data()) == 0;
}

bool Seal::open(uint32_t sequence, Frame& frame) const {
  const auto header = encode(frame.header);
  if (crypto_aead_chacha20poly1305_ietf_decrypt(frame.payload.data(), nullptr, nullptr, frame.payload.data(),
                                                frame.payload.size(), header.data(), header.size(),
                                                nonce(sequence, FrameSection::kPayload).data(), theirs_.data()) != 0)
    return false;
  frame.header.bytes -= static_cast<uint32_t>(kFrameTagBytes);
  frame.payload.resize(frame.header.bytes);
  return true;
}

}  // namespace bps
