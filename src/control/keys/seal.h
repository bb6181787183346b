// Seal: encrypts and authenticates the frames of one connection after its handshake, in both directions.
//
// ChaCha20-Poly1305 with one key per direction. A frame has two tags: one for the header, one for the payload. The
// nonce holds the frame's number in its direction and which of the two tags it is for, so no nonce repeats. Changed,
// replayed, reordered, reflected or invented frames have no valid tag and are refused. The ControlSocket owns it.
#pragma once
#include <span>

#include "src/control/keys/crypto.h"
#include "src/wire/frame.h"

namespace bps {

class Seal {
 public:
  using TaggedHeader = std::span<const uint8_t, kFrameHeaderBytes + kFrameTagBytes>;

  Seal(const SessionKeys& keys, HandshakeSide mine);

  // Appends the sealed frame to `out`. `header` holds the length of the plain payload.
  void seal(FrameHeader header, std::span<const uint8_t> payload, Blob& out) const;
  // True if this is the header of the peer's frame `sequence`.
  bool isAuthenticHeader(uint32_t sequence, TaggedHeader header) const;
  // Decrypts the payload of the peer's frame `sequence` and removes its tag. Its header must be authentic.
  bool open(uint32_t sequence, Frame& frame) const;

 private:
  Key mine_, theirs_;
};

}  // namespace bps
