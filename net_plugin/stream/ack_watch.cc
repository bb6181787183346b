#include "net_plugin/stream/ack_watch.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>

namespace bps::plugin::stream {

AckState ackStateOf(int socket) {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return {};
  const bool tellsRoom = length >= offsetof(tcp_info, tcpi_snd_wnd) + sizeof info.tcpi_snd_wnd;  // Linux 5.4
  return {.acked = info.tcpi_bytes_acked,
          .inFlight = info.tcpi_unacked > 0,
          .room = !tellsRoom || info.tcpi_snd_wnd > 0,
          .probes = info.tcpi_probes,
          .sinceHeard = std::chrono::milliseconds(info.tcpi_last_ack_recv)};
}

// One probe may be on its way right now; and the last answer may be long ago where nothing was asked since.
bool AckWatch::look(const AckState& state, TimePoint now, Patience patience) {
  const bool waits = state.inFlight && state.room;
  if (!waits || !waits_ || state.acked != acked_) since_ = now;
  waits_ = waits;
  acked_ = state.acked;
  if (waits && now - since_ >= patience) return true;
  return state.probes > 1 && state.sinceHeard >= patience;
}

}  // namespace bps::plugin::stream
