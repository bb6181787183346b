#include "net_plugin/stream/frame.h"

#include "net_plugin/comm.h"
#include "src/base/wire_io.h"

namespace bps::plugin::stream {
namespace {

constexpr uint16_t kMagic = 0x6d62;  // "bm"

template <class T>
void putAt(FrameBytes& frame, size_t at, T value) {
  for (size_t i = 0; i < sizeof value; ++i) frame[at + i] = static_cast<uint8_t>(value >> (8 * i));
}

}  // namespace

// Bytes of the message, magic, zero, offset and bytes of the slice, number of the message.
FrameBytes encodeFrame(const Slice& slice) {
  FrameBytes frame{};
  putAt(frame, 0, static_cast<uint32_t>(slice.messageBytes));
  putAt(frame, 4, kMagic);
  putAt(frame, 8, static_cast<uint32_t>(slice.offset));
  putAt(frame, 12, static_cast<uint32_t>(slice.bytes));
  putAt(frame, 16, slice.number);
  return frame;
}

Result<Slice> parseFrame(std::span<const uint8_t> bytes) {
  WireReader reader(bytes);
  Slice slice;
  slice.messageBytes = reader.get<uint32_t>();
  const auto magic = reader.get<uint16_t>();
  const auto zero = reader.get<uint16_t>();
  slice.offset = reader.get<uint32_t>();
  slice.bytes = reader.get<uint32_t>();
  slice.number = reader.get<uint64_t>();
  if (reader.truncated() || magic != kMagic || zero != 0 || slice.messageBytes > kMaxMessageBytes)
    return Status(Code::kRemote, "the stream is corrupt: no message header where one must be");
  const bool within = slice.offset + slice.bytes <= slice.messageBytes;
  if (!within || (slice.bytes == 0 && slice.messageBytes > 0))
    return Status(Code::kRemote, "the stream is corrupt: a slice that is not within its message");
  return slice;
}

}  // namespace bps::plugin::stream
