// UniqueId: the content of the 128 bytes of a bpsUniqueId. A UniqueId contains the address where the ranks meet and the
// key with which a rank proves that it belongs to the communicator.
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
    kRendezvous = 1,  // `address` belongs to a RendezvousServer, which tells every rank the hub's address
    kHub = 2,         // `address` is the address at which the hub in rank 0 listens (from BPS_ROOT)
  };
  Kind kind = Kind::kHub;
  Address address;
  Key key{};  // the key that authenticates the control connections of this communicator

  std::array<uint8_t, kUniqueIdBytes> bytes() const;
  // Decodes the bytes of a unique id. Fails with kInvalidArgument if the magic number, the version or the checksum is
  // wrong.
  static Result<UniqueId> parse(std::span<const uint8_t, kUniqueIdBytes> bytes);

  // If BPS_ROOT is set, create() uses the address in BPS_ROOT and a key derived from BPS_KEY_FILE. If BPS_ROOT is set,
  // authentication is on and BPS_KEY_FILE is missing, create() fails with an error that says what to set. If BPS_ROOT
  // is not set, create() starts a RendezvousServer in this process (see rendezvous/rendezvous_server.h) and makes a
  // random key.
  static Result<UniqueId> create(const Env& env);
  // Starts a RendezvousServer in this process even if BPS_ROOT is set. Used, for example, for a communicator that is
  // split off another communicator.
  static Result<UniqueId> createHere(const Env& env);
};

// Returns the key for connections to servers, derived from BPS_KEY_FILE (keys/key_file.h). With BPS_AUTH=off the key is
// all zeros. If authentication is on and BPS_KEY_FILE is missing, serverKey() fails with an error that says what to
// set.
Result<Key> serverKey(const Env& env);
// Like serverKey(), but for the connection between two `bps-topo probe` processes.
Result<Key> probeKey(const Env& env);

}  // namespace bps
