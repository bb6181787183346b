// The messages that begin a connection through a relay (relay.h). Both have a fixed size and are not encrypted. After
// a reply with Outcome::kConnected, the relay forwards all bytes of both sides unchanged, so that the handshake of the
// control connection (src/control/link/handshake.h) is between its two ends. A relay can therefore break a connection,
// but can neither read nor change it.
//
//   request   magic u32 | version u16 | kind u8 | family u8 | IP address 16 bytes | port u16, padded to 32 bytes
//   reply     magic u32 | version u16 | outcome u8 | hops u8 | 12 times: rank u32, length u8, host 43 bytes
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/io/address.h"
#include "src/base/status.h"

namespace bps {

// A process through whose relay a connection leads.
struct RelayHop {
  uint32_t rank = 0;  // in the communicator
  std::string host;
};

struct RelayRequest {
  static constexpr size_t kBytes = 32;
  enum class Kind : uint8_t {
    kForward = 1,
    kAsk = 2,  // asks for the reply only
  };
  Kind kind = Kind::kForward;
  Address target;
};

struct RelayReply {
  static constexpr size_t kMaxHops = 12, kHostBytes = 43;
  static constexpr size_t kBytes = 8 + kMaxHops * (4 + 1 + kHostBytes);
  enum class Outcome : uint8_t {
    kConnected = 1,  // `hops` are the relays from the replying one to the target
    kNotYet = 2,     // the relaying process has no connection to the target yet
    kUnknown = 3,    // the relaying process does not take part in a communicator with this target
    kFull = 4,       // the relay has too many connections
    kBroken = 5,     // the relay cannot reach the target any more
  };
  Outcome outcome = Outcome::kUnknown;
  std::vector<RelayHop> hops{};
};

std::array<uint8_t, RelayRequest::kBytes> encodeRelay(const RelayRequest& request);
std::array<uint8_t, RelayReply::kBytes> encodeRelay(const RelayReply& reply);  // cuts long names and long chains
Result<RelayRequest> decodeRelayRequest(std::span<const uint8_t, RelayRequest::kBytes> bytes);
Result<RelayReply> decodeRelayReply(std::span<const uint8_t, RelayReply::kBytes> bytes);

// "rank 3 (c), then rank 1 (a)"
std::string hopsText(const std::vector<RelayHop>& hops);

}  // namespace bps
