#include "net_plugin/tcp/congestion.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <string_view>

#include "net_plugin/tcp/route.h"
#include "src/base/io/fd.h"

namespace bps::plugin::tcp {
namespace {

// Every kernel has Reno, which does not pace.
const std::string kUnpaced = "reno";
constexpr std::string_view kPacing = "bbr";  // prefix: also later versions of BBR

std::string congestionControlOf(int fd) {
  std::array<char, 16> name{};  // the kernel's names are shorter
  socklen_t length = name.size() - 1;
  return ::getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), &length) == 0 ? name.data() : "";
}

bool setCongestionControl(int fd, const std::string& name) {
  return ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0;
}

bool paces(const std::string& control) { return control.starts_with(kPacing); }

// Whether this process can set the kernel's default congestion control again after changing it: the kernel may restrict
// that choice. The test uses a temporary socket, because a socket may always select the algorithm that it already has.
bool canRestore(const std::string& control) {
  const UniqueFd trial(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return trial && setCongestionControl(trial.get(), kUnpaced) && setCongestionControl(trial.get(), control);
}

bool isOnSameMachine(int fd, const Address& peer) {
  Result<Address> own = localAddress(fd);
  return own.ok() && isRoutedThrough("lo", std::move(own).value(), peer);
}

}  // namespace

void disablePacingForPeer(int fd, const Address& peer) {
  if (paces(congestionControlOf(fd)) && isOnSameMachine(fd, peer)) setCongestionControl(fd, kUnpaced);
}

std::string disablePacingOnListener(int listenFd) {
  std::string before = congestionControlOf(listenFd);
  if (!paces(before) || !canRestore(before) || !setCongestionControl(listenFd, kUnpaced)) return {};
  return before;
}

void restorePacingForRemotePeer(int fd, const std::string& defaultCongestionControl) {
  // A route may set its own congestion control, which is kept.
  if (defaultCongestionControl.empty() || congestionControlOf(fd) != kUnpaced) return;
  Result<Address> peer = peerAddress(fd);
  if (peer.ok() && !isOnSameMachine(fd, std::move(peer).value())) setCongestionControl(fd, defaultCongestionControl);
}

}  // namespace bps::plugin::tcp
