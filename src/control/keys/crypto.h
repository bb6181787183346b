// Cryptography of the control plane: random bytes, keys and the proofs of the handshake. libsodium does all the
// cryptography, and only the files in src/control/keys call libsodium. Any thread may use these functions after
// cryptoInit().
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "src/base/status.h"
#include "src/control/unique_id.h"
#include "src/wire/control_messages.h"

namespace bps {

// Call cryptoInit() before the other functions in this file. cryptoInit() fails only if the system has no source of
// random numbers.
Status cryptoInit();
void randomBytes(std::span<uint8_t> out);
uint64_t randomJobId();  // never 0

// Derives a key from a secret. Different uses of the same secret get different keys.
Key deriveKey(std::string_view use, std::span<const uint8_t> secret);

enum class HandshakeSide : uint8_t { kConnecting = 1, kAccepting = 2 };

// A hash over the headers and payloads of all frames that both sides have sent so far, in order.
class Transcript {
 public:
  using Hash = std::array<uint8_t, 32>;
  void add(std::span<const uint8_t> header, std::span<const uint8_t> payload);
  const Hash& hash() const { return hash_; }

 private:
  Hash hash_{};
};

// The proof is an HMAC of the side and of the transcript so far. Only a holder of the key can make a proof, and a proof
// is valid in one handshake only.
Proof makeProof(const Key& key, HandshakeSide side, const Transcript::Hash& before);
bool sameProof(const Proof& a, const Proof& b);  // in constant time

// An X25519 key pair for one connection. The destructor wipes the secret key.
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

// The session has one key per direction. Each key is named after the sending side.
struct SessionKeys {
  Key connecting{}, accepting{};
};
// Derives the session keys from the shared key, the X25519 shared secret and the transcript. A peer that lacks the
// shared key or has a different transcript derives different session keys. The session keys give forward secrecy: an
// attacker who learns the shared key later cannot decrypt recorded traffic. Fails if `theirs` is not a valid public
// key.
Result<SessionKeys> sessionKeys(const Key& shared, const KeyPair& mine, const PublicKey& theirs,
                                const Transcript::Hash& transcript);

}  // namespace bps
