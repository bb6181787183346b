// The wire format of the TCP transport: handles and hellos. Both have a fixed size, little-endian fields, a magic and a
// version.
//
//   handle  address of a listener, number of sockets per connection, and a secret token; the control plane carries it
//   hello   the first bytes on every socket, sent by the connecting side; slices follow (net_plugin/stream). It ends
//   with
//           a MAC keyed by the token, which proves that the peer has the handle. The token itself is never sent. A
//           listener accepts each connection number once, so a replayed hello is rejected.
//
// The parsers have no side effects and accept arbitrary bytes.
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "net_plugin/abi.h"
#include "src/base/io/socket.h"
#include "src/base/status.h"

namespace bps::plugin::tcp {

inline constexpr uint16_t kWireVersion = 5;
inline constexpr size_t kHelloBytes = 36;
inline constexpr size_t kMaxSockets = 64;  // per connection

using Token = std::array<uint8_t, 16>;
using HandleBytes = std::array<uint8_t, abi::kHandleBytes>;
using HelloBytes = std::array<uint8_t, kHelloBytes>;

struct HandleData {
  Address address;
  Token token{};
  size_t sockets = 1;  // per connection
};

// The use of the sockets: kStream: they carry the messages. kVerbs: the single socket carries the handshake of an RDMA
// connection and then serves as its liveness socket.
enum class Carrier : uint32_t { kStream, kVerbs };

struct Hello {
  size_t sockets = 1, index = 0;  // sockets of the connection, and the index of this one
  uint64_t connection = 0;        // random number that is equal for all sockets of a connection
  Carrier carrier = Carrier::kStream;
};

HandleBytes encodeHandle(const HandleData& handle);
Result<HandleData> parseHandle(std::span<const uint8_t> bytes);

Status fillRandom(void* data, size_t bytes);
Result<Token> randomToken();

HelloBytes encodeHello(const Token& token, const Hello& hello);
// Compares the MAC in constant time.
Result<Hello> parseHello(std::span<const uint8_t> bytes, const Token& token);

}  // namespace bps::plugin::tcp
