// What the control plane needs of cryptography, all of it from libsodium: random bytes, keys from files, and the
// proofs of the handshake. The only files that know libsodium are secret.cc and this one's tests.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "src/base/status.h"
#include "src/control/unique_id.h"
#include "src/wire/control_messages.h"

namespace bps {

// Fails only if the system has no source of randomness.
Status secretInit();
void randomBytes(std::span<uint8_t> out);
uint64_t randomJobId();  // never 0

// A key of its own for each use of the same secret.
Key deriveKey(std::string_view use, std::span<const uint8_t> secret);

enum class Side : uint8_t { kConnecting = 1, kAccepting = 2 };
// An HMAC of the side, both nonces and the purpose: only who has the key can make it, and it fits this handshake only.
Proof makeProof(const Key& key, Side side, const Nonce& connecting, const Nonce& accepting, Purpose purpose);
bool sameProof(const Proof& a, const Proof& b);  // in constant time

}  // namespace bps
