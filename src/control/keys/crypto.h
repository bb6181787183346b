// Cryptography of the control plane, all of it from libsodium: random bytes, keys and the proofs of the handshake. Only
// crypto.cc and seal.cc (which protects the frames after the handshake) call libsodium. Any thread, after cryptoInit().
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "src/base/status.h"
#include "src/control/unique_id.h"
#include "src/wire/control_messages.h"

namespace bps {

// Call before anything else here. Fails only if the system has no source of randomness.
Status cryptoInit();
void randomBytes(std::span<uint8_t> out);
uint64_t randomJobId();  // never 0

// Derives a separate key for each use of the same secret.
Key deriveKey(std::string_view use, std::span<const uint8_t> secret);

enum class HandshakeSide : uint8_t { kConnecting = 1, kAccepting = 2 };

// A hash over all frames of both sides so far, headers and payloads, in order.
class Transcript {
 public:
  using Hash = std::array<uint8_t, 32>;
  void add(std::span<const uint8_t> header, std::span<const uint8_t> payload);
  const Hash& hash() const { return hash_; }

 private:
  Hash hash_{};
};

// An HMAC of the side and of the transcript so far. Only a holder of the key can make it, and it is valid in this
// handshake only.
Proof makeProof(const Key& key, HandshakeSide side, const Transcript::Hash& before);
bool sameProof(const Proof& a, const Proof& b);  // in constant time

// An X25519 key pair for one connection. The destructor wipes the secret half.
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

// One key per direction, named after the sender.
struct SessionKeys {
  Key connecting{}, accepting{};
};
// Derives the session keys from the shared key, the X25519 shared secret and the transcript. A peer without the shared
// key, or with another transcript, gets different keys. Forward secrecy: somebody who learns the shared key later
// cannot decrypt recorded traffic. Fails if `theirs` is not a valid public key.
Result<SessionKeys> sessionKeys(const Key& shared, const KeyPair& mine, const PublicKey& theirs,
                                const Transcript::Hash& transcript);

}  // namespace bps
