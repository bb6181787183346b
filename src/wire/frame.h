// A Frame is one message of the control plane on a TCP connection. A FrameReader splits a byte stream into frames.
//
//   length of the payload u32 | type u16 | version u16 | job u64 | sequence u32 | payload          (little endian)
//
// After the handshake (src/control/link/handshake.h), an authentication tag follows the header. The payload is
// encrypted and ends with a second tag, which the length includes. The FrameReader verifies the header's tag before it
// uses the length.
//
// The frame header and the payloads of Hello and Refusal have the same format in all protocol versions. Peers of
// different versions can therefore report the mismatch. The FrameReader refuses a length above the limit before it
// reads the payload. The FrameReader allocates memory only in proportion to the bytes that it has received.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "src/base/io/wire_io.h"
#include "src/base/status.h"

namespace bps {

inline constexpr uint16_t kControlVersion = 17;
inline constexpr size_t kFrameHeaderBytes = 20;
// The maximum payload sizes before and after the peer is authenticated.
inline constexpr size_t kMaxUnauthenticatedFrameBytes = 1024;
inline constexpr size_t kMaxFrameBytes = 64U << 20;
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
  kServerEvent = 27,
  kServerReply = 28,
  kDrain = 29,
  kStatus = 30,
  kStatusReport = 31,
  kClockRequest = 32,
  kClockReply = 33,
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

// The caller reads from its socket into room() and passes the number of bytes to filled(). Only one thread uses a
// FrameReader.
class FrameReader {
 public:
  // Verifies a header and the header's tag.
  using HeaderCheck = std::function<Status(std::span<const uint8_t, kFrameHeaderBytes + kFrameTagBytes>)>;

  void setLimit(size_t bytes) { limit_ = bytes; }
  // After expectTags(), headers and payloads have tags.
  void expectTags(HeaderCheck check) { check_ = std::move(check); }
  // The buffer for the next bytes of the stream. This buffer is never empty.
  std::span<uint8_t> room();
  // Call filled() after `count` bytes were written to room(). Returns the frame if it is complete. Fails if the length
  // exceeds the limit or the header's tag is wrong.
  Result<std::optional<Frame>> filled(size_t count);
  // True if the FrameReader is between two frames.
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
  size_t have_ = 0;  // bytes received of the current header or payload
};

}  // namespace bps
