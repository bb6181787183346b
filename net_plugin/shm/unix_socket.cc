#include "net_plugin/shm/unix_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "src/base/format.h"

namespace bps::plugin::shm {
namespace {

constexpr int kBacklog = 64;
constexpr size_t kMaxFds = 4;  // the kernel closes received descriptors beyond this number

struct UnixAddress {
  sockaddr_un address{};
  socklen_t length = 0;

  explicit UnixAddress(const std::string& text) {
    const size_t bytes = std::min(text.size(), sizeof address.sun_path - 1);
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, text.data(), bytes);  // a leading zero byte means the abstract namespace
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  }
  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&address); }
};

UniqueFd makeSocket() { return UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

std::optional<ucred> credentials(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return std::nullopt;
  return peer;
}

}  // namespace

Result<UniqueFd> listenUnix(const std::string& name) {
  UniqueFd socket = makeSocket();
  if (!socket) return systemFailure("unix socket", errno);
  const UnixAddress address(name);
  if (::bind(socket.get(), address.data(), address.length) != 0 || ::listen(socket.get(), kBacklog) != 0)
    return systemFailure("listening at the unix socket @" + name, errno);
  return socket;
}

Result<UniqueFd> acceptUnix(int listener) {
  UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
    return systemFailure("accepting at a unix socket", errno);
  return socket;
}

Result<UniqueFd> connectUnix(const std::string& name) {
  UniqueFd socket = makeSocket();
  if (!socket) return systemFailure("unix socket", errno);
  const UnixAddress address(name);
  if (::connect(socket.get(), address.data(), address.length) == 0) return socket;
  if (errno == EAGAIN || errno == EINTR) return UniqueFd();
  if (errno == ECONNREFUSED || errno == ENOENT)
    return failure(Code::kRemote, "no process listens at the unix socket @{}", name);
  return systemFailure("connecting to the unix socket @" + name, errno);
}

bool isSameUser(int socket) {
  const std::optional<ucred> peer = credentials(socket);
  return peer && peer->uid == ::geteuid();
}

std::string peerName(int socket) {
  const std::optional<ucred> peer = credentials(socket);
  if (!peer || peer->pid == 0) return "a process of this machine";
  return fmt::format("process {} of this machine", peer->pid);
}

Status sendWithFd(int socket, std::span<const uint8_t> bytes, int fd) {
  return sendFds(socket, bytes, std::span(&fd, 1), "passing shared memory to " + peerName(socket), MSG_DONTWAIT);
}

Result<FdMessage> receiveWithFds(int socket, std::span<uint8_t> room) {
  FdMessage received = BPS_TRY(receiveFds(socket, room, kMaxFds, MSG_DONTWAIT));
  if (received.bytes == 0 && !received.nothingYet) return Status(Code::kRemote, "it hung up");
  return received;
}

}  // namespace bps::plugin::shm
