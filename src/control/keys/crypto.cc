#include "src/control/keys/crypto.h"

#include <sodium.h>

#include <algorithm>
#include <array>

namespace bps {

static_assert(crypto_auth_KEYBYTES == std::tuple_size_v<Key> && crypto_auth_BYTES == std::tuple_size_v<Proof>);
static_assert(crypto_scalarmult_BYTES == std::tuple_size_v<Key> && crypto_box_PUBLICKEYBYTES == sizeof(PublicKey));

Status cryptoInit() {
  if (sodium_init() < 0) return {Code::kSystem, "libsodium cannot start: no source of random numbers"};
  return {};
}

void randomBytes(std::span<uint8_t> out) { randombytes_buf(out.data(), out.size()); }

uint64_t randomJobId() {
  uint64_t id = 0;
  while (id == 0) randombytes_buf(&id, sizeof id);
  return id;
}

Key deriveKey(std::string_view use, std::span<const uint8_t> secret) {
  Key key{};
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, key.size());
  const auto length = static_cast<uint8_t>(use.size());
  crypto_generichash_update(&state, &length, 1);
  crypto_generichash_update(&state, reinterpret_cast<const uint8_t*>(use.data()), length);
  crypto_generichash_update(&state, secret.data(), secret.size());
  crypto_generichash_final(&state, key.data(), key.size());
  return key;
}

void Transcript::add(std::span<const uint8_t> header, std::span<const uint8_t> payload) {
  crypto_generichash_state state;
  crypto_generichash_init(&state, nullptr, 0, hash_.size());
  crypto_generichash_update(&state, hash_.data(), hash_.size());
  crypto_generichash_update(&state, header.data(), header.size());
  crypto_generichash_update(&state, payload.data(), payload.size());
  crypto_generichash_final(&state, hash_.data(), hash_.size());
}

Proof makeProof(const Key& key, HandshakeSide side, const Transcript::Hash& before) {
  static constexpr std::string_view kLabel = "bps control handshake 2";
  WireWriter message;
  message.put(kLabel).put(side).put(std::span<const uint8_t>(before));
  Proof proof{};
  crypto_auth(proof.data(), message.bytes().data(), message.bytes().size(), key.data());
  return proof;
}

bool sameProof(const Proof& a, const Proof& b) { return sodium_memcmp(a.data(), b.data(), a.size()) == 0; }

KeyPair::KeyPair() { crypto_box_keypair(publicKey_.data(), secret_.data()); }

KeyPair::~KeyPair() { sodium_memzero(secret_.data(), secret_.size()); }

Result<SessionKeys> sessionKeys(const Key& shared, const KeyPair& mine, const PublicKey& theirs,
                                const Transcript::Hash& transcript) {
  static constexpr std::string_view kLabel = "bps control session 1";
  Key agreed{};
  if (crypto_scalarmult(agreed.data(), mine.secret().data(), theirs.data()) != 0)
    return Status(Code::kRemote, "the peer's public key is invalid");
  SessionKeys keys;
  std::array<uint8_t, 2 * std::tuple_size_v<Key>> both{};
  crypto_generichash_state state;
  crypto_generichash_init(&state, shared.data(), shared.size(), both.size());
  crypto_generichash_update(&state, reinterpret_cast<const uint8_t*>(kLabel.data()), kLabel.size());
  crypto_generichash_update(&state, agreed.data(), agreed.size());
  crypto_generichash_update(&state, transcript.data(), transcript.size());
  crypto_generichash_final(&state, both.data(), both.size());
  std::copy_n(both.begin(), keys.connecting.size(), keys.connecting.begin());
  std::copy_n(both.begin() + keys.connecting.size(), keys.accepting.size(), keys.accepting.begin());
  sodium_memzero(agreed.data(), agreed.size());
  sodium_memzero(both.data(), both.size());
  return keys;
}

}  // namespace bps
