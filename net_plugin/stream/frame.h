// Slice: a run of bytes of one message, as it goes through one socket; and the frame that stands before it there. A
// message is one slice, or, where a connection has several sockets, several: each frame says all about its own, so
// that it does not matter which socket brings it, nor when.
//
//   bytes of the message, and whether this is a part of it u32 | number of the message u32        (little endian)
//   CRC32C of these u32
//   of a part only: its offset u32 | its bytes u32 | CRC32C of these, after the first one u32
//
// There is a frame for every message, so it says no more than it must. The number is the low half of one that never
// wraps: no socket is 2^31 messages ahead of another.
//
// Nothing that a frame says is used before its checksum is found right. So a flipped bit is an error at once: it never
// makes a receiver wait for bytes that do not come, nor take a message for another one.
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

inline constexpr size_t kFrameBytes = 12;       // before a whole message
inline constexpr size_t kSliceFrameBytes = 24;  // before a part of one
using FrameBytes = std::array<uint8_t, kSliceFrameBytes>;

inline size_t frameBytesOf(const Slice& slice) { return slice.isWhole() ? kFrameBytes : kSliceFrameBytes; }
// The first frameBytesOf() of these are to be sent.
FrameBytes encodeFrame(const Slice& slice);
// How long the frame is that begins with these bytes, at least kFrameBytes of them. Fails if they are corrupt.
Result<size_t> frameBytesOf(std::span<const uint8_t> bytes);
// A slice that lies within its message, and is of message `next` or of a later one.
Result<Slice> parseFrame(std::span<const uint8_t> bytes, uint64_t next);

}  // namespace bps::plugin::stream
