// AckWatch: detects that the peer of a TCP socket no longer acknowledges data. An AckWatch is used
// by the thread that uses the socket.
//
// The peer is considered gone in two cases. In the first case, bytes that fit into the peer's
// receive window stay unacknowledged for the peer timeout. In the second case, the peer's receive
// window is closed, and the peer answers no window probe for the peer timeout. The kernel of the
// peer sends the acknowledgements, so a peer process that computes or is stopped is not considered
// gone. If this process pauses, its own kernel still receives acknowledgements, so the peer is
// not considered gone either. If no data is in flight, the kernel's keepalive ends the connection
// within the same time (net_plugin/tcp/options.h).
#pragma once
#include <chrono>
#include <cstdint>

namespace bps::plugin::stream {

using PeerTimeout = std::chrono::milliseconds;
inline constexpr PeerTimeout kDefaultPeerTimeout{10000};

// The kernel's record of the acknowledgements that a TCP socket has received. The default values
// mean that the peer is alive. For a socket of another protocol, readAckState() returns the
// default values.
struct AckState {
  uint64_t acked = 0;                         // bytes acknowledged since the connection was established
  bool inFlight = false;                      // the peer has not yet acknowledged all bytes that were sent
  bool room = true;                           // the peer's receive window is open
  unsigned probes = 0;                        // number of window probes since the peer last answered
  std::chrono::milliseconds sinceLastAck{0};  // time since the last acknowledgement of old or new bytes
};
AckState readAckState(int socket);

class AckWatch {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Returns the interval at which to call isPeerGone(). isPeerGone() compares only successive
  // states, so the caller must call it regularly.
  static PeerTimeout checkInterval(PeerTimeout peerTimeout) { return peerTimeout / 8; }
  // Returns true if the peer is gone.
  bool isPeerGone(const AckState& state, TimePoint now, PeerTimeout peerTimeout);

 private:
  bool wasBlocked_ = false;  // bytes were in flight and the window was open in the last state
  uint64_t acked_ = 0;       // acknowledged bytes in the last state
  TimePoint since_{};        // time since which no state has shown progress
};

}  // namespace bps::plugin::stream
