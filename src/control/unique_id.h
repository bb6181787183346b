// The 128 bytes of bpsUniqueId: where the ranks meet, and the key that proves that they belong together.
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "src/base/env.h"
#include "src/base/io/socket.h"
#include "src/base/status.h"

namespace bps {

inline constexpr size_t kUniqueIdBytes = 128;
using Key = std::array<uint8_t, 32>;

struct UniqueId {
  enum class Kind : uint8_t {
    kRendezvous = 1,  // `address` is a RendezvousServer, which tells every rank where rank 0's hub listens
    kHub = 2,         // `address` is where rank 0 itself will listen (BPS_ROOT, or a split's new hub)
  };
  Kind kind = Kind::kHub;
  Address address;
  Key key{};  // authenticates the control connections of this communicator

  std::array<uint8_t, kUniqueIdBytes> bytes() const;
  // Fails with kInvalidArgument if magic, version or checksum is wrong.
  static Result<UniqueId> parse(std::span<const uint8_t, kUniqueIdBytes> bytes);

  // With BPS_ROOT: uses that address and a key derived from BPS_KEY_FILE. Without BPS_KEY_FILE but with authentication
  // this is an error that says what to set. Without BPS_ROOT: starts a RendezvousServer in this process (see
  // rendezvous/rendezvous_server.h) and makes a random key.
  static Result<UniqueId> create(const Env& env);
  // Starts a RendezvousServer in this process even with BPS_ROOT, for a communicator that is split off another one.
  static Result<UniqueId> createHere(const Env& env);
};

// The servers' key, derived from BPS_KEY_FILE (keys/key_file.h), or all zeros with BPS_AUTH=off. Without a key file but
// with authentication: an error that says what to set.
Result<Key> serverKey(const Env& env);
// The same for the connection between two `bps-topo probe` processes.
Result<Key> probeKey(const Env& env);

}  // namespace bps
