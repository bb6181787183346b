// Slice: a run of bytes of one message, as it goes through one socket; and the frame that stands before it there. A
// message is one slice, or, where a connection has several sockets, several: each frame says all about its own, so
// that it does not matter which socket brings it, nor when.
//
// The parser is pure and takes any bytes.
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "src/base/status.h"

namespace bps::plugin::stream {

struct Slice {
  uint64_t number = 0;  // of the message on its connection, from 0
  size_t messageBytes = 0;
  size_t offset = 0, bytes = 0;

  bool isWhole() const { return bytes == messageBytes; }
};

// Fixed size, little-endian.
inline constexpr size_t kFrameBytes = 24;
using FrameBytes = std::array<uint8_t, kFrameBytes>;

FrameBytes encodeFrame(const Slice& slice);
// A slice that lies within its message.
Result<Slice> parseFrame(std::span<const uint8_t> bytes);

}  // namespace bps::plugin::stream
