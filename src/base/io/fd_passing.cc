#include "src/base/io/fd_passing.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "src/base/format.h"

namespace bps {
namespace {

struct alignas(cmsghdr) ControlBuffer {
  std::array<char, CMSG_SPACE(sizeof(int) * kMaxPassedFds)> bytes{};
};

std::vector<UniqueFd> takeFds(msghdr& message) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* h = CMSG_FIRSTHDR(&message); h != nullptr; h = CMSG_NXTHDR(&message, h)) {
    if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
    for (size_t at = 0; at + sizeof(int) <= h->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(h) + at, sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

Status sendFds(int socket, std::span<const uint8_t> bytes, std::span<const int> fds, const std::string& what,
               int flags) {
  if (fds.size() > kMaxPassedFds) return failure(Code::kInternal, "{}: {} descriptors at once", what, fds.size());
  iovec data{const_cast<uint8_t*>(bytes.data()), bytes.size()};
  ControlBuffer control;
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  const ssize_t sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | flags);
  if (sent < 0) return systemFailure(what, errno);
  if (static_cast<size_t>(sent) != bytes.size()) return failure(Code::kSystem, "{}: no room in the socket", what);
  return {};
}

Result<FdMessage> receiveFds(int socket, std::span<uint8_t> room, size_t maxFds, int flags) {
  iovec data{room.data(), room.size()};
  ControlBuffer control;
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = CMSG_SPACE(sizeof(int) * std::min(maxFds, kMaxPassedFds));
  const ssize_t got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);
  FdMessage received;
  received.nothingYet = got < 0 && (errno == EAGAIN || errno == EINTR);
  if (received.nothingYet) return received;
  if (got < 0) return systemFailure("recvmsg", errno);
  received.fds = takeFds(message);
  received.bytes = static_cast<size_t>(got);
  received.truncated = (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0;
  return received;
}

}  // namespace bps
