// What the TCP transport puts on the wire and into handles: all of it fixed size, little-endian, with magic and
// version.
//
//   handle  where a listener is, how many sockets it wants, and a token; it travels by the control plane
//   hello   first bytes on every socket, from the connecting side; what follows is net_plugin/stream's. It ends with a
//           MAC under the handle's token, which proves that the caller was given the handle and is never sent itself.
//           A listener takes each hello once, so one that was overheard is of no use.
//
// The parsers are pure and take any bytes.
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
inline constexpr size_t kMaxSockets = 64;  // of a connection

using Token = std::array<uint8_t, 16>;
using HandleBytes = std::array<uint8_t, abi::kHandleBytes>;
using HelloBytes = std::array<uint8_t, kHelloBytes>;

struct HandleData {
  Address address;
  Token token{};
  size_t sockets = 1;  // of each connection
};

// What the socket is for: the messages themselves, or the making and the life of a connection of RDMA verbs, which has
// one socket.
enum class Carrier : uint32_t { kStream, kVerbs };

struct Hello {
  size_t sockets = 1, index = 0;  // of its connection, and of this socket among them
  uint64_t connection = 0;        // a random number by which the sockets of a connection find together
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
