// The wire format of the TCP transport: handles and hellos. A handle or hello has a fixed size,
// little-endian fields, a magic and a version.
//
// A handle contains the address of a listener, the number of sockets per connection, and a secret
// token. The control plane carries the handle to the peer.
//
// A hello is the first message on every socket, and the connecting side sends it. Slices follow the
// hello (net_plugin/stream). The hello ends with a MAC (message authentication code) whose key is
// the token. The MAC proves that the peer has the handle. The token itself is never sent over the
// socket. A listener accepts each connection number only once, so it rejects a replayed hello.
//
// The parsers have no side effects and are safe for arbitrary bytes.
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

// Says how a connection uses its sockets. With kStream, the sockets carry the messages. With
// kVerbs, the single socket carries the handshake of an RDMA connection and then serves as the
// connection's liveness socket.
enum class Carrier : uint32_t { kStream, kVerbs };

struct Hello {
  size_t sockets = 1, index = 0;  // number of sockets of the connection, index of this socket
  uint64_t connection = 0;        // random number that is equal for all sockets of a connection
  Carrier carrier = Carrier::kStream;
};

HandleBytes encodeHandle(const HandleData& handle);
Result<HandleData> parseHandle(std::span<const uint8_t> bytes);

Status fillRandom(void* data, size_t bytes);
Result<Token> randomToken();

HelloBytes encodeHello(const Token& token, const Hello& hello);
// Parses a hello and verifies its MAC. The comparison of the MAC takes constant time.
Result<Hello> parseHello(std::span<const uint8_t> bytes, const Token& token);

}  // namespace bps::plugin::tcp
