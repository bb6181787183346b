#include "net_plugin/shm/unix_socket.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "src/base/format.h"

namespace bps::plugin::shm {
namespace {

constexpr int kBacklog = 64;
constexpr size_t kMaxFds = 4;  // the kernel closes descriptors beyond this number

struct UnixAddress {
  sockaddr_un address{};
  socklen_t length = 0;

  explicit UnixAddress(const std::string& text) {
    const size_t bytes = std::min(text.size(), sizeof address.sun_path - 1);
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, text.data(), bytes);  // a leading zero byte: the abstract namespace
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

void takeFds(msghdr& message, std::vector<UniqueFd>& fds) {
  for (cmsghdr* h = CMSG_FIRSTHDR(&message); h != nullptr; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; at + sizeof(int) <= h->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(h) + at, sizeof fd);
      fds.emplace_back(fd);
    }
  }
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
  iovec data{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof fd)> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent < 0) return systemFailure("passing shared memory to " + peerName(socket), errno);
  if (sent != static_cast<ssize_t>(bytes.size()))
    return failure(Code::kSystem, "passing shared memory to {}: the socket buffer is full", peerName(socket));
  return {};
}

Result<Received> receiveWithFds(int socket, std::span<uint8_t> room) {
  Received received;
  iovec data{room.data(), room.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * kMaxFds)> control{};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return received;
  if (got < 0) return systemFailure("recvmsg", errno);
  takeFds(message, received.fds);
  if (got == 0) return Status(Code::kRemote, "it hung up");
  received.bytes = static_cast<size_t>(got);
  return received;
}

}  // namespace bps::plugin::shm
