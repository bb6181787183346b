// Seal: encrypts and authenticates the frames of one connection after its handshake, both directions.
//
// ChaCha20-Poly1305 with a key for each direction. A nonce is the frame's number in its direction and which of the
// frame's two tags it is for, so none comes twice. A frame is what the peer sent as this frame of this connection, or
// it is refused: changed, replayed, reordered, reflected and invented ones have no tag that fits.
#pragma once
#include <span>

#include "src/control/keys/crypto.h"
#include "src/wire/frame.h"

namespace bps {

class Seal {
 public:
  using TaggedHeader = std::span<const uint8_t, kFrameHeaderBytes + kFrameTagBytes>;

  Seal(const SessionKeys& keys, HandshakeSide mine);

  // Adds the frame to `out` as it goes over the wire. `header` tells the payload's plain length.
  void seal(FrameHeader header, std::span<const uint8_t> payload, Blob& out) const;
  // Whether this is the header of the peer's frame `sequence`.
  bool isAuthenticHeader(uint32_t sequence, TaggedHeader header) const;
  // Decrypts the payload of the peer's frame `sequence`, whose header fits, and takes off its tag.
  bool open(uint32_t sequence, Frame& frame) const;

 private:
  Key mine_, theirs_;
};

}  // namespace bps
