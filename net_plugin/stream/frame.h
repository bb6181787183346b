// Slice: a contiguous piece of a message that is sent over one socket. A frame precedes every slice
// on the socket.
//
// A message consists of one slice, or of several slices if the connection has several sockets. A
// frame describes its slice completely, so the slices of a message may arrive over any socket and
// in any order. The format of a frame is, in little-endian order:
//
//   size of the message u32, whose bit 31 marks a partial slice | number of the message u32
//   CRC32C of these two fields u32
//   for a partial slice only: offset u32 | bytes u32 | CRC32C u32 that continues the first CRC32C
//
// The number in the frame is the lower half of a 64-bit number. The lower half is sufficient,
// because no socket is 2^31 messages ahead of another socket.
//
// The receiver verifies the checksum of a frame before it uses any field. Without this check, a bit
// error could make a receiver wait for bytes that never arrive, or mix up two messages. With the
// check, the connection fails immediately.
//
// The parser has no side effects and is safe for arbitrary bytes.
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "src/base/status.h"

namespace bps::plugin::stream {

struct Slice {
  uint64_t number = 0;  // number of the message on its connection, starting at 0
  size_t messageBytes = 0;
  size_t offset = 0, bytes = 0;

  bool isWhole() const { return bytes == messageBytes; }
};

inline constexpr size_t kFrameBytes = 12;       // frame of a whole message
inline constexpr size_t kSliceFrameBytes = 24;  // frame of a partial slice
using FrameBytes = std::array<uint8_t, kSliceFrameBytes>;

inline size_t frameBytesOf(const Slice& slice) { return slice.isWhole() ? kFrameBytes : kSliceFrameBytes; }
// Returns the frame of a slice in the first frameBytesOf() bytes of the result. The other bytes are
// not part of the frame.
FrameBytes encodeFrame(const Slice& slice);
// Returns the length of the frame that begins with `bytes`, of which at least kFrameBytes are
// needed. Fails if these bytes are corrupt.
Result<size_t> frameBytesOf(std::span<const uint8_t> bytes);
// Parses a frame. Fails if the frame is corrupt, if its slice is not within its message, or if the
// message is before message `next`.
Result<Slice> parseFrame(std::span<const uint8_t> bytes, uint64_t next);

}  // namespace bps::plugin::stream
