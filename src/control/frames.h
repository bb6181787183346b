// Helpers for received frames, used by the hub, its clients and the servers: check that a frame is expected in the
// current state, and decode it.
//
// An unexpected or malformed frame breaks the protocol. The failure names the peer that sent it.
#pragma once
#include <algorithm>
#include <initializer_list>

#include "src/base/format.h"
#include "src/control/link/link.h"
#include "src/wire/control_messages.h"

namespace bps {

// Frames of one peer that are handled before the next peer is served.
inline constexpr int kFramesPerStep = 64;
// The maximum number of authenticated peers that have not identified themselves yet. If there are more, the one that
// has waited longest is dropped. The ranks of a large job arrive together, so the limit is larger than the number of
// peers that can pass the handshake while the first message of a peer is on its way.
inline constexpr size_t kMaxUnidentifiedPeers = 4096;

inline bool isOneOf(MessageType type, std::initializer_list<MessageType> due) {
  return std::find(due.begin(), due.end(), type) != due.end();
}

inline Status unexpectedFrame(const Link& from, const Frame& frame) {
  return from.protocolError(failure(Code::kRemote, "unexpected message \"{}\"", messageName(frame.header.type)));
}

template <ControlMessage T>
Result<T> decodeFrom(const Link& from, const Frame& frame) {
  Result<T> message = decode<T>(frame.payload);
  if (!message.ok()) return from.protocolError(message.error());
  return message;
}

}  // namespace bps
