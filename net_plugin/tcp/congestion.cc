#include "net_plugin/tcp/congestion.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>

#include "net_plugin/tcp/route.h"

namespace bps::plugin::tcp {
namespace {

// Known to every kernel and free for all users; does not pace.
const std::string kUnpaced = "reno";

std::string controlOf(int fd) {
  std::array<char, 16> name{};  // the kernel's names are shorter
  socklen_t length = name.size() - 1;
  return ::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &length) == 0 ? name.data() : "";
}

bool setControl(int fd, const std::string& name) {
  return ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0;
}

bool isInside(int fd, const Address& peer) {
  Result<Address> own = localAddress(fd);
  return own.ok() && leavesThrough("lo", std::move(own).value(), peer);
}

}  // namespace

void unpaceTowards(int fd, const Address& peer) {
  if (isInside(fd, peer)) setControl(fd, kUnpaced);
}

std::string unpaceAccepted(int listenFd) {
  std::string before = controlOf(listenFd);
  // The kernel's own choice may be one that it lets nobody choose.
  if (before.empty() || before == kUnpaced || !setControl(listenFd, before) || !setControl(listenFd, kUnpaced))
    return {};
  return before;
}

void paceFromOutside(int fd, const std::string& kernelsChoice) {
  // The route to the peer may have a choice of its own, which has not been changed.
  if (kernelsChoice.empty() || controlOf(fd) != kUnpaced) return;
  Result<Address> peer = peerAddress(fd);
  if (peer.ok() && !isInside(fd, std::move(peer).value())) setControl(fd, kernelsChoice);
}

}  // namespace bps::plugin::tcp
