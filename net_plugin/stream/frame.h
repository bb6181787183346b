// Slice: a contiguous part of a message that is sent over one socket, and the frame that precedes it on the socket.
//
// A message is one slice, or several if the connection has several sockets. The frame describes its slice completely,
// so slices may arrive over any socket and in any order.
//
//   bytes of the message, bit 31: partial slice u32 | number of the message u32        (little endian)
//   CRC32C of these fields u32
//   partial slice only: offset u32 | bytes u32 | CRC32C that continues the first one u32
//
// The number is the lower half of a 64-bit number. That is sufficient, because no socket is 2^31 messages ahead of
// another.
//
// The receiver uses no field of a frame before it has verified the checksum. A bit error therefore fails at once,
// instead of making a receiver wait for bytes that never arrive or confusing two messages.
//
// The parser has no side effects and accepts arbitrary bytes.
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "src/base/status.h"

namespace bps::plugin::stream {

struct Slice {
  uint64_t number = 0;  // of the message on its connection, starting at 0
  size_t messageBytes = 0;
  size_t offset = 0, bytes = 0;

  bool isWhole() const { return bytes == messageBytes; }
};

inline constexpr size_t kFrameBytes = 12;       // frame of a whole message
inline constexpr size_t kSliceFrameBytes = 24;  // frame of a partial slice
using FrameBytes = std::array<uint8_t, kSliceFrameBytes>;

inline size_t frameBytesOf(const Slice& slice) { return slice.isWhole() ? kFrameBytes : kSliceFrameBytes; }
// Only the first frameBytesOf() bytes of the result are the frame.
FrameBytes encodeFrame(const Slice& slice);
// Returns the length of the frame that begins with these bytes (at least kFrameBytes). Fails if they are corrupt.
Result<size_t> frameBytesOf(std::span<const uint8_t> bytes);
// Fails if the slice is not within its message, or belongs to a message before `next`.
Result<Slice> parseFrame(std::span<const uint8_t> bytes, uint64_t next);

}  // namespace bps::plugin::stream
