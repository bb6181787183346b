// What the control plane needs of cryptography, all of it from libsodium: random bytes, keys, and the handshake's
// proofs. crypto.cc and seal.cc (what protects the frames afterwards) are the only files of the control plane that know
// libsodium.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "src/base/status.h"
#include "src/control/unique_id.h"
#include "src/wire/control_messages.h"

namespace bps {

// Fails only if the system has no source of randomness.
Status cryptoInit();
void randomBytes(std::span<uint8_t> out);
uint64_t randomJobId();  // never 0

// A key of its own for each use of the same secret.
Key deriveKey(std::string_view use, std::span<const uint8_t> secret);

enum class HandshakeSide : uint8_t { kConnecting = 1, kAccepting = 2 };

// A hash of all frames so far of both sides, headers and payloads, in their order.
class Transcript {
 public:
  using Hash = std::array<uint8_t, 32>;
  void add(std::span<const uint8_t> header, std::span<const uint8_t> payload);
  const Hash& hash() const { return hash_; }

 private:
  Hash hash_{};
};

// An HMAC of the side and of all that was said before: only who has the key can make it, and it fits this handshake
// only.
Proof makeProof(const Key& key, HandshakeSide side, const Transcript::Hash& before);
bool sameProof(const Proof& a, const Proof& b);  // in constant time

// A pair of X25519 keys for one connection; the secret half is wiped at its end.
class KeyPair {
 public:
  KeyPair();
  KeyPair(const KeyPair&) = default;
  KeyPair& operator=(const KeyPair&) = default;
  ~KeyPair();
  const PublicKey& publicKey() const { return publicKey_; }
  const Key& secret() const { return secret_; }

 private:
  Key secret_{};
  PublicKey publicKey_{};
};

// One key for each direction, by the side that sends.
struct SessionKeys {
  Key connecting{}, accepting{};
};
// From the shared key, what the two public keys make together, and the handshake's transcript: who lacks the first or
// has seen another transcript gets others, and who learns the shared key later cannot read what was recorded before.
// Fails on a public key that is none.
Result<SessionKeys> sessionKeys(const Key& shared, const KeyPair& mine, const PublicKey& theirs,
                                const Transcript::Hash& transcript);

}  // namespace bps
