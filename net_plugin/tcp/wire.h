// What the TCP transport puts on the wire and into handles: all of it fixed size, little-endian, with magic and
// version.
//
//   handle  where a listener is and the token that proves that a caller was given the handle
//   hello   first bytes of every connection, from the connecting side
//   frame   before every message: its size and its number, so that a torn stream is noticed
//
// The parsers are pure and take any bytes.
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "net_plugin/abi.h"
#include "src/base/socket.h"
#include "src/base/status.h"

namespace bps::plugin::tcp {

inline constexpr uint16_t kWireVersion = 1;
inline constexpr size_t kHelloBytes = 32;
inline constexpr size_t kFrameBytes = 8;

using Token = std::array<uint8_t, 16>;
using HandleBytes = std::array<uint8_t, abi::kHandleBytes>;
using HelloBytes = std::array<uint8_t, kHelloBytes>;
using FrameBytes = std::array<uint8_t, kFrameBytes>;

struct HandleData {
  Address address;
  Token token{};
};

HandleBytes encodeHandle(const HandleData& handle);
Result<HandleData> parseHandle(std::span<const uint8_t> bytes);

Result<Token> randomToken();

// What the socket is for: the messages themselves, or the making and the life of a connection of RDMA verbs.
enum class Carrier : uint8_t { kStream, kVerbs };

HelloBytes encodeHello(const Token& token, Carrier carrier);
// Compares the token in constant time.
Result<Carrier> checkHello(std::span<const uint8_t> bytes, const Token& token);

FrameBytes encodeFrame(size_t messageBytes, uint64_t number);
// The size of message `number`.
Result<size_t> parseFrame(std::span<const uint8_t> bytes, uint64_t number);

}  // namespace bps::plugin::tcp
