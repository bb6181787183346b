// Seal: encrypts and authenticates all frames of one connection after the handshake, in both directions.
//
// The cipher is ChaCha20-Poly1305 with one key per direction. Every frame has two authentication tags: one for the
// header and one for the payload. The nonce contains the frame's sequence number and the section (header or payload),
// so no nonce is used twice with the same key. A changed, replayed, reordered, reflected or invented frame has no valid
// tag and is refused. The Seal belongs to the ControlSocket.
#pragma once
#include <span>

#include "src/control/keys/crypto.h"
#include "src/wire/frame.h"

namespace bps {

class Seal {
 public:
  using TaggedHeader = std::span<const uint8_t, kFrameHeaderBytes + kFrameTagBytes>;

  Seal(const SessionKeys& keys, HandshakeSide mine);

  // Encrypts a frame and appends it to `out`. seal() itself sets the length in the header.
  void seal(FrameHeader header, std::span<const uint8_t> payload, Blob& out) const;
  // True if `header` is the authentic header of the peer's frame with number `sequence`.
  bool isAuthenticHeader(uint32_t sequence, TaggedHeader header) const;
  // Decrypts the payload of the peer's frame with number `sequence` and removes the payload's tag. The header of this
  // frame must be authentic. Returns false if the payload is not authentic.
  bool open(uint32_t sequence, Frame& frame) const;

 private:
  Key mine_, theirs_;
};

}  // namespace bps
