#include "net_plugin/tcp/options.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <string_view>

#include "net_plugin/tcp/route.h"
#include "src/base/socket.h"

namespace bps::plugin::tcp {
namespace {

constexpr int kProbes = 3;
// What a socket may hold that it has not sent yet, where there are others that could take it instead.
constexpr int kMostUnsent = 256 << 10;

// Known to every kernel and free for all users; does not pace.
constexpr std::string_view kUnpaced = "reno";

void set(int fd, int level, int option, int value) { ::setsockopt(fd, level, option, &value, sizeof value); }

// Between processes of one machine nothing is lost, and there is no rate to be found; BBR takes one from what small
// messages reached, and keeps large ones to it.
void unpaceInsideMachine(int fd, const Address& peer) {
  Result<Address> own = localAddress(fd);
  if (!own.ok() || !leavesThrough("lo", std::move(own).value(), peer)) return;
  ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kUnpaced.data(), kUnpaced.size());
}

}  // namespace

// The sizes of the buffers stay the kernel's choice. So does TCP_USER_TIMEOUT: it also ends a connection whose peer is
// well and just does not read. SendComm looks for itself whether the peer answers.
void setOptions(int fd, const Address& peer, size_t sockets, Patience patience) {
  const int seconds = std::max(1, static_cast<int>(patience.count() / 1000));
  const int between = std::max(1, seconds / (2 * kProbes));
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, std::max(1, seconds - kProbes * between));
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, between);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  if (sockets > 1) set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, kMostUnsent);
  unpaceInsideMachine(fd, peer);
}

}  // namespace bps::plugin::tcp
