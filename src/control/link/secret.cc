#include "src/control/link/secret.h"

#include <sodium.h>

#include <array>

namespace bps {

static_assert(crypto_auth_KEYBYTES == std::tuple_size_v<Key> && crypto_auth_BYTES == std::tuple_size_v<Proof>);

Status secretInit() {
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

Proof makeProof(const Key& key, Side side, const Nonce& connecting, const Nonce& accepting, Purpose purpose) {
  static constexpr std::string_view kLabel = "bps control handshake 1";
  WireWriter message;
  message.put(kLabel).put(side).put(std::span<const uint8_t>(connecting)).put(std::span<const uint8_t>(accepting));
  message.put(purpose);
  Proof proof{};
  crypto_auth(proof.data(), message.bytes().data(), message.bytes().size(), key.data());
  return proof;
}

bool sameProof(const Proof& a, const Proof& b) { return sodium_memcmp(a.data(), b.data(), a.size()) == 0; }

}  // namespace bps
