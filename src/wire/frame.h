// Frame: the unit of the control protocol on a TCP connection, and FrameReader, which cuts a byte stream into frames.
//
//   length of the payload u32 | type u16 | version u16 | job u64 | sequence u32 | payload          (little endian)
//
// After the handshake (src/control/link) a tag follows the header and another one ends the payload, which is encrypted;
// the length counts the payload's tag. The header's own tag is checked before its length is believed.
//
// This header and the payloads of Hello and Refusal keep their form in all versions, so that two versions can tell
// each other which they are. The length is checked against the limit before anything is allocated, and memory grows
// only with the bytes that really came.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "src/base/io/wire_io.h"
#include "src/base/status.h"

namespace bps {

inline constexpr uint16_t kControlVersion = 10;
inline constexpr size_t kFrameHeaderBytes = 20;
inline constexpr size_t kMaxUnauthenticatedFrameBytes = 1U
                                                        << 10;  // limit of a payload before the peer is authenticated
inline constexpr size_t kMaxFrameBytes = 64U << 20;             // and after
inline constexpr size_t kFrameTagBytes = 16;

enum class MessageType : uint16_t {
  kHello = 1,
  kChallenge = 2,
  kProof = 3,
  kWelcome = 4,
  kRefusal = 5,
  kRendezvousRequest = 6,
  kRendezvousReply = 7,
  kJoin = 8,
  kRoster = 9,
  kOffer = 10,
  kOpenJob = 11,
  kJobOpened = 12,
  kBegin = 13,
  kControlOpInput = 14,
  kControlOpResult = 15,
  kHeartbeat = 16,
  kFailure = 17,
  kSuspect = 18,
  kLeft = 19,
  kGoodbye = 20,
  kProbeDevice = 21,
  kProbeOpen = 22,
  kProbeOpened = 23,
  kProbeRate = 24,
  kCheck = 25,
  kCheckReport = 26,
};

struct FrameHeader {
  uint32_t bytes = 0;
  MessageType type = MessageType::kHeartbeat;
  uint16_t version = kControlVersion;
  uint64_t job = 0;
  uint32_t sequence = 0;
};

struct Frame {
  FrameHeader header;
  Blob payload;
};

std::array<uint8_t, kFrameHeaderBytes> encode(const FrameHeader& header);

class FrameReader {
 public:
  // Whether a header with the tag behind it is the peer's.
  using HeaderCheck = std::function<Status(std::span<const uint8_t, kFrameHeaderBytes + kFrameTagBytes>)>;

  void setLimit(size_t bytes) { limit_ = bytes; }
  // From the next frame on headers and payloads have tags.
  void expectTags(HeaderCheck check) { check_ = std::move(check); }
  // Where the next bytes of the stream go; never empty.
  std::span<uint8_t> room();
  // `count` bytes were written to room(): a frame if they completed one. Fails on a length beyond the limit.
  Result<std::optional<Frame>> filled(size_t count);
  // True between frames.
  bool empty() const { return have_ == 0 && !inPayload_; }

 private:
  size_t headerLength() const { return check_ ? headerBytes_.size() : kFrameHeaderBytes; }
  Status startPayload();
  std::optional<Frame> finish();

  size_t limit_ = kMaxUnauthenticatedFrameBytes;
  HeaderCheck check_;
  std::array<uint8_t, kFrameHeaderBytes + kFrameTagBytes> headerBytes_{};
  Frame frame_;
  bool inPayload_ = false;
  size_t have_ = 0;  // of the header, or of the payload
};

}  // namespace bps
