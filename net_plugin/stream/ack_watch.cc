#include "net_plugin/stream/ack_watch.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>

namespace bps::plugin::stream {

AckState readAckState(int socket) {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return {};
  const bool hasWindowField = length >= offsetof(tcp_info, tcpi_snd_wnd) + sizeof info.tcpi_snd_wnd;  // Linux 5.4
  return {.acked = info.tcpi_bytes_acked,
          .inFlight = info.tcpi_unacked > 0,
          .room = !hasWindowField || info.tcpi_snd_wnd > 0,
          .probes = info.tcpi_probes,
          .sinceLastAck = std::chrono::milliseconds(info.tcpi_last_ack_recv)};
}

// The peer must leave more than one probe unanswered, because one probe may be in flight right now.
// The time since the last answer alone proves nothing, because it also grows while nothing is sent.
bool AckWatch::isPeerGone(const AckState& state, TimePoint now, PeerTimeout peerTimeout) {
  const bool waits = state.inFlight && state.room;
  if (!waits || !wasBlocked_ || state.acked != acked_) since_ = now;
  wasBlocked_ = waits;
  acked_ = state.acked;
  if (waits && now - since_ >= peerTimeout) return true;
  return state.probes > 1 && state.sinceLastAck >= peerTimeout;
}

}  // namespace bps::plugin::stream
