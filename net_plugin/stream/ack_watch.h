// AckWatch: tells whether the peer of one TCP socket still acknowledges what is sent to it.
//
// The peer is gone when bytes that it has room for stay unacknowledged for the patience, or when it has no room and
// answers no probe for the patience. Acknowledgements come from the peer's kernel, so neither a peer that computes or
// is stopped nor a pause of this process looks like a peer that is gone. With nothing in flight the kernel's keepalive
// ends the connection within the same time (net_plugin/tcp/options.h).
#pragma once
#include <chrono>
#include <cstdint>

namespace bps::plugin::stream {

using PeerTimeout = std::chrono::milliseconds;
inline constexpr PeerTimeout kDefaultPeerTimeout{10000};

// What the kernel knows of a socket. The default, also for a socket that is not TCP: all is well.
struct AckState {
  uint64_t acked = 0;                         // bytes, since the connection began
  bool inFlight = false;                      // bytes were sent and are not acknowledged
  bool room = true;                           // the peer takes more; its window is not closed
  unsigned probes = 0;                        // in a row, of a closed window, without an answer
  std::chrono::milliseconds sinceLastAck{0};  // the last segment with an acknowledgement, of new bytes or not
};
AckState readAckState(int socket);

class AckWatch {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // How often to look: the watch only knows what it saw.
  static PeerTimeout checkInterval(PeerTimeout peerTimeout) { return peerTimeout / 8; }
  // True: the peer is gone.
  bool isPeerGone(const AckState& state, TimePoint now, PeerTimeout peerTimeout);

 private:
  bool wasBlocked_ = false;  // at the last look, for bytes that the peer has room for
  uint64_t acked_ = 0;       // then
  TimePoint since_{};        // the first look that found the same
};

}  // namespace bps::plugin::stream
