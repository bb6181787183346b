#include "net_plugin/tcp/options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

namespace bps::plugin::tcp {
namespace {

constexpr int kProbes = 3;
constexpr int kMaxKeepaliveIdleSeconds = 60;  // firewalls and NAT drop connections that are idle for minutes
// The limit of the unsent bytes in the buffer of a socket. The limit applies only if the connection
// has other sockets, which could send these bytes instead.
constexpr int kMaxUnsentBytes = 256 << 10;

void set(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); }

}  // namespace

// The kernel chooses the buffer sizes. TCP_USER_TIMEOUT is not set, because this option also ends a
// connection to a living peer that does not read. AckWatch detects peers that are gone.
void setOptions(int fd, size_t sockets, PeerTimeout peerTimeout) {
  const int seconds = std::max(1, static_cast<int>(peerTimeout.count() / 1000));
  const int between = std::max(1, seconds / (2 * kProbes));
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, std::clamp(seconds - kProbes * between, 1, kMaxKeepaliveIdleSeconds));
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, between);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  if (sockets > 1) set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kMaxUnsentBytes);
}

}  // namespace bps::plugin::tcp
