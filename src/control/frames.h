// What every side of the star does with a frame that has come: asks whether it is due in its state, and decodes it.
//
// A frame that is not due, or that cannot be decoded, breaks the protocol. Both functions then name the peer that sent
// it, so that nobody else is blamed.
#pragma once
#include <algorithm>
#include <initializer_list>

#include "src/base/format.h"
#include "src/control/link/link.h"
#include "src/wire/control_messages.h"

namespace bps {

// Frames of one peer that are handled before the other peers have their turn.
inline constexpr int kFramesPerStep = 64;
// Authenticated peers that have not said yet who they are, at most: the one that has waited longest has to go. The
// ranks of a large job come all at once, and what each says first is under way while others are let in: the number is
// beyond what can pass the handshake within that time.
inline constexpr size_t kMaxUnidentifiedPeers = 4096;

inline bool isOneOf(MessageType type, std::initializer_list<MessageType> due) {
  return std::find(due.begin(), due.end(), type) != due.end();
}

inline Status unexpectedFrame(const Link& from, const Frame& frame) {
  return from.protocolError(failure(Code::kRemote, "\"{}\" is not due", messageName(frame.header.type)));
}

template <ControlMessage T>
Result<T> decodeFrom(const Link& from, const Frame& frame) {
  Result<T> message = decode<T>(frame.payload);
  if (!message.ok()) return from.protocolError(message.error());
  return message;
}

}  // namespace bps
