#include "tools/bps_topo/fabric/neighbour_table.h"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "src/base/format.h"
#include "src/base/io/fd.h"

namespace bps {
namespace {

using Table = std::map<Ipv4Bytes, NeighbourEntry>;

constexpr timeval kTimeout{2, 0};
constexpr const char* kName = "the kernel's table of neighbours";

std::chrono::milliseconds ticks(uint32_t count) {
  constexpr int64_t kMsPerSecond = 1000;
  return std::chrono::milliseconds(int64_t{count} * kMsPerSecond / std::max(::sysconf(_SC_CLK_TCK), 1L));
}

// Adds the entry of a message of the kernel, if it is one of this interface.
void addEntry(const nlmsghdr* header, unsigned interface, Table& table) {
  const auto* message = static_cast<const ndmsg*>(NLMSG_DATA(header));
  if (message->ndm_family != AF_INET || static_cast<unsigned>(message->ndm_ifindex) != interface) return;
  NeighbourEntry entry{message->ndm_state, {}};
  Ipv4Bytes ip{};
  auto left = static_cast<int>(header->nlmsg_len - NLMSG_LENGTH(sizeof(ndmsg)));
  const auto* at = reinterpret_cast<const rtattr*>(reinterpret_cast<const char*>(message) + NLMSG_ALIGN(sizeof(ndmsg)));
  for (; RTA_OK(at, left); at = RTA_NEXT(at, left)) {
    if (at->rta_type == NDA_DST && RTA_PAYLOAD(at) == ip.size()) std::memcpy(ip.data(), RTA_DATA(at), ip.size());
    nda_cacheinfo times{};
    if (at->rta_type != NDA_CACHEINFO || RTA_PAYLOAD(at) < sizeof(times)) continue;
    std::memcpy(&times, RTA_DATA(at), sizeof(times));
    entry.sinceAnswer = ticks(times.ndm_confirmed);
  }
  table[ip] = entry;
}

Status requestTable(int fd) {
  struct {
    nlmsghdr header;
    ndmsg entry;
  } request{};
  request.header = {sizeof(request), RTM_GETNEIGH, NLM_F_REQUEST | NLM_F_DUMP, 1, 0};
  request.entry.ndm_family = AF_INET;
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof(kTimeout));
  return ::send(fd, &request, sizeof(request), 0) < 0 ? systemFailure(kName, errno) : Status();
}

}  // namespace

Ipv4Bytes ipv4Bytes(const Address& address) {
  Ipv4Bytes bytes{};
  std::ranges::copy(address.ip().first(std::min(bytes.size(), address.ip().size())), bytes.begin());
  return bytes;
}

Result<Table> readNeighbourTable(unsigned interface) {
  const UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!fd) return systemFailure(kName, errno);
  BPS_TRY(requestTable(fd.get()));
  constexpr size_t kBufferBytes = 64U << 10;
  alignas(nlmsghdr) std::array<char, kBufferBytes> buffer;
  Table table;
  while (true) {
    const ssize_t received = ::recv(fd.get(), buffer.data(), buffer.size(), 0);
    if (received < 0) return systemFailure(kName, errno);
    auto left = static_cast<size_t>(received);
    const auto* header = reinterpret_cast<const nlmsghdr*>(buffer.data());
    for (; NLMSG_OK(header, left); header = NLMSG_NEXT(header, left)) {
      if (header->nlmsg_type == NLMSG_DONE) return table;
      if (header->nlmsg_type == NLMSG_ERROR) return failure(Code::kSystem, "{} cannot be read", kName);
      if (header->nlmsg_type == RTM_NEWNEIGH) addEntry(header, interface, table);
    }
  }
}

}  // namespace bps
