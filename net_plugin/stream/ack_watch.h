// AckWatch: detects that the peer of a TCP socket no longer acknowledges data. Used by the thread that uses the socket.
//
// The peer is considered gone in two cases: bytes that fit into its receive window stay unacknowledged for the peer
// timeout, or its window is closed and it answers no window probe for the peer timeout. Acknowledgements come from the
// peer's kernel, so a peer process that computes or is stopped is not considered gone; neither does a pause of this
// process matter. If nothing is in flight, the kernel's keepalive ends the connection within the same time
// (net_plugin/tcp/options.h).
#pragma once
#include <chrono>
#include <cstdint>

namespace bps::plugin::stream {

using PeerTimeout = std::chrono::milliseconds;
inline constexpr PeerTimeout kDefaultPeerTimeout{10000};

// The kernel's state of a socket. The default values, also used for sockets other than TCP, mean a living peer.
struct AckState {
  uint64_t acked = 0;                         // bytes acknowledged since the connection was established
  bool inFlight = false;                      // bytes were sent and are not acknowledged
  bool room = true;                           // the peer's receive window is open
  unsigned probes = 0;                        // consecutive probes of a closed window without an answer
  std::chrono::milliseconds sinceLastAck{0};  // time since the last acknowledgement, even of no new bytes
};
AckState readAckState(int socket);

class AckWatch {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // The interval at which to call isPeerGone(), which only compares successive states.
  static PeerTimeout checkInterval(PeerTimeout peerTimeout) { return peerTimeout / 8; }
  // Returns true if the peer is gone.
  bool isPeerGone(const AckState& state, TimePoint now, PeerTimeout peerTimeout);

 private:
  bool wasBlocked_ = false;  // in the last state: bytes were in flight and the window was open
  uint64_t acked_ = 0;       // in the last state
  TimePoint since_{};        // the time of the first state without progress since
};

}  // namespace bps::plugin::stream
