// Helpers with which the hub, the other ranks and the servers check and decode received frames. A frame is one message
// on a control connection.
//
// An unexpected or malformed frame breaks the protocol. The failure names the peer that sent the frame.
#pragma once
#include <algorithm>
#include <initializer_list>

#include "src/base/format.h"
#include "src/control/link/link.h"
#include "src/wire/control_messages.h"

namespace bps {

// The maximum number of frames of one peer that are handled before the next peer is served.
inline constexpr int kFramesPerStep = 64;
// The maximum number of authenticated peers that have not sent their first message yet. If there are more such peers,
// the peer that has waited longest is dropped. All ranks of a large job connect at the same time. While the first
// message of one peer is on its way, many other peers pass the handshake; the limit is larger than their number.
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
