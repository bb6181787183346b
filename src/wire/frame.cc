#include "src/wire/frame.h"

#include <algorithm>

#include "src/base/format.h"

namespace bps {
namespace {

constexpr size_t kGrowth = 256U << 10;  // the payload buffer grows by this number of bytes at a time

FrameHeader decodeHeader(std::span<const uint8_t> bytes) {
  WireReader in(bytes);
  FrameHeader header;
  header.bytes = in.get<uint32_t>();
  header.type = in.get<MessageType>();
  header.version = in.get<uint16_t>();
  header.job = in.get<uint64_t>();
  header.sequence = in.get<uint32_t>();
  return header;
}

}  // namespace

std::array<uint8_t, kFrameHeaderBytes> encode(const FrameHeader& header) {
  WireWriter out;
  out.put(header.bytes).put(header.type).put(header.version).put(header.job).put(header.sequence);
  return out.padded<kFrameHeaderBytes>();
}

std::span<uint8_t> FrameReader::room() {
  if (!inPayload_) return std::span(headerBytes_).first(headerLength()).subspan(have_);
  const size_t wanted = std::min<size_t>(frame_.header.bytes, have_ + kGrowth);
  if (frame_.payload.size() < wanted) frame_.payload.resize(wanted);
  return std::span(frame_.payload).subspan(have_);
}

Result<std::optional<Frame>> FrameReader::filled(size_t count) {
  have_ += count;
  if (!inPayload_) {
    if (have_ < headerLength()) return std::optional<Frame>();
    BPS_TRY(startPayload());
  }
  if (have_ < frame_.header.bytes) return std::optional<Frame>();
  return finish();
}

Status FrameReader::startPayload() {
  if (check_) BPS_TRY(check_(headerBytes_));
  frame_.header = decodeHeader(headerBytes_);
  if (check_ && frame_.header.bytes < kFrameTagBytes)
    return failure(Code::kRemote, "encrypted frame of {} bytes: shorter than its tag", frame_.header.bytes);
  if (frame_.header.bytes > limit_)
    return failure(Code::kRemote, "frame of {} bytes exceeds the limit of {}: not a peer of this protocol",
                   frame_.header.bytes, limit_);
  inPayload_ = true;
  have_ = 0;
  return {};
}

std::optional<Frame> FrameReader::finish() {
  inPayload_ = false;
  have_ = 0;
  return std::exchange(frame_, Frame());
}

}  // namespace bps
