#include "net_plugin/stream/patience.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace bps::plugin::stream {

// One probe may be on its way right now; and the last answer may be long ago where nothing was asked since.
bool isGone(const Answers& answers, Patience patience) {
  return (answers.lost > 1 || answers.probes > 1) && answers.since >= patience;
}

Answers answersOf(int socket) {
  tcp_info info{};
  socklen_t length = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return {};
  return {.lost = info.tcpi_retransmits,
          .probes = info.tcpi_probes,
          .since = std::chrono::milliseconds(info.tcpi_last_ack_recv)};
}

}  // namespace bps::plugin::stream
