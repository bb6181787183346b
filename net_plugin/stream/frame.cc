#include "net_plugin/stream/frame.h"

#include "net_plugin/comm.h"
#include "src/base/checksum/crc32c.h"
#include "src/base/format.h"
#include "src/base/io/wire_io.h"

namespace bps::plugin::stream {
namespace {

constexpr uint32_t kPartialFlag = uint32_t{1} << 31;
static_assert(kMaxMessageBytes < kPartialFlag, "a message size must not use the flag's bit");
constexpr uint32_t kMaxAhead = uint32_t{1} << 31;  // a larger difference modulo 2^32 means a number before `next`

void putAt(FrameBytes& frame, size_t at, size_t value) {
  for (size_t i = 0; i < sizeof(uint32_t); ++i) frame[at + i] = static_cast<uint8_t>(value >> (8 * i));
}

constexpr size_t kCheckedBytes = 2 * sizeof(uint32_t);  // bytes of each half of a frame that its checksum covers

// Verifies and returns the checksum of the half of a frame that begins at `at`. `before` is the
// checksum of the first half if `at` is the second half, otherwise 0.
Result<uint32_t> check(std::span<const uint8_t> bytes, size_t at, uint32_t before) {
  if (bytes.size() < at + kFrameBytes) return Status(Code::kRemote, "the stream is corrupt: a frame is truncated");
  const uint32_t right = crc32c(bytes.data() + at, kCheckedBytes, before);
  if (WireReader(bytes.subspan(at + kCheckedBytes)).get<uint32_t>() != right)
    return Status(Code::kRemote, "the stream is corrupt: the checksum of a frame is wrong");
  return right;
}

}  // namespace

FrameBytes encodeFrame(const Slice& slice) {
  FrameBytes frame{};
  putAt(frame, 0, slice.messageBytes | (slice.isWhole() ? 0 : kPartialFlag));
  putAt(frame, 4, slice.number);
  const uint32_t first = crc32c(frame.data(), kCheckedBytes);
  putAt(frame, 8, first);
  if (slice.isWhole()) return frame;
  putAt(frame, 12, slice.offset);
  putAt(frame, 16, slice.bytes);
  putAt(frame, 20, crc32c(frame.data() + kFrameBytes, kCheckedBytes, first));
  return frame;
}

Result<size_t> frameBytesOf(std::span<const uint8_t> bytes) {
  BPS_TRY(check(bytes, 0, 0));
  return (WireReader(bytes).get<uint32_t>() & kPartialFlag) != 0 ? kSliceFrameBytes : kFrameBytes;
}

Result<Slice> parseFrame(std::span<const uint8_t> bytes, uint64_t next) {
  const uint32_t checked = BPS_TRY(check(bytes, 0, 0));
  WireReader reader(bytes);
  const auto first = reader.get<uint32_t>();
  const auto ahead = static_cast<uint32_t>(reader.get<uint32_t>() - static_cast<uint32_t>(next));
  Slice slice{.number = next + ahead, .messageBytes = first & ~kPartialFlag};
  slice.bytes = slice.messageBytes;
  if ((first & kPartialFlag) != 0) {
    BPS_TRY(check(bytes, kFrameBytes, checked));
    WireReader part(bytes.subspan(kFrameBytes));
    slice.offset = part.get<uint32_t>();
    slice.bytes = part.get<uint32_t>();
    const bool within = slice.offset + slice.bytes <= slice.messageBytes;
    if (!within || slice.bytes == 0 || slice.isWhole())
      return Status(Code::kRemote, "the stream is corrupt: a slice is not within its message");
  }
  if (ahead >= kMaxAhead)
    return failure(Code::kRemote, "the stream is corrupt: a slice of message {} (modulo 2^32), expected {} or later",
                   static_cast<uint32_t>(slice.number), static_cast<uint32_t>(next));
  return slice;
}

}  // namespace bps::plugin::stream
