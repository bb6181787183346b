#include "net_plugin/tcp/route.h"

#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <cstring>

#include "src/base/io/fd.h"

namespace bps::plugin::tcp {
namespace {

// The netlink request of the command "ip route get TO from FROM".
struct RouteRequest {
  nlmsghdr head{};
  rtmsg route{};
  std::array<char, 2 * RTA_SPACE(sizeof(in6_addr))> attributes{};

  RouteRequest(const Address& from, const Address& to) {
    head.nlmsg_len = NLMSG_LENGTH(sizeof route);
    head.nlmsg_type = RTM_GETROUTE;
    head.nlmsg_flags = NLM_F_REQUEST;
    route.rtm_family = static_cast<unsigned char>(to.family());
    route.rtm_src_len = route.rtm_dst_len = static_cast<unsigned char>(8 * to.ip().size());
    add(RTA_SRC, from.ip());
    add(RTA_DST, to.ip());
  }

  void add(unsigned short type, std::span<const uint8_t> value) {
    rtattr attribute{};
    attribute.rta_type = type;
    attribute.rta_len = static_cast<unsigned short>(RTA_LENGTH(value.size()));
    char* at = attributes.data() + (head.nlmsg_len - NLMSG_LENGTH(sizeof route));
    std::memcpy(at, &attribute, sizeof attribute);
    std::memcpy(at + RTA_LENGTH(0), value.data(), value.size());
    head.nlmsg_len += static_cast<uint32_t>(RTA_SPACE(value.size()));
  }
};

// Returns the interface index in an answer of the kernel, or 0 if the answer has none.
unsigned parseInterfaceIndex(const char* answer, size_t size) {
  nlmsghdr head{};
  if (size < NLMSG_LENGTH(sizeof(rtmsg))) return 0;
  std::memcpy(&head, answer, sizeof head);
  if (head.nlmsg_type != RTM_NEWROUTE || head.nlmsg_len > size) return 0;
  for (size_t at = NLMSG_LENGTH(sizeof(rtmsg)); at + RTA_LENGTH(0) <= head.nlmsg_len;) {
    rtattr attribute{};
    std::memcpy(&attribute, answer + at, sizeof attribute);
    if (attribute.rta_len < RTA_LENGTH(0) || at + attribute.rta_len > head.nlmsg_len) return 0;
    unsigned index = 0;
    if (attribute.rta_type == RTA_OIF && attribute.rta_len == RTA_LENGTH(sizeof index)) {
      std::memcpy(&index, answer + at + RTA_LENGTH(0), sizeof index);
      return index;
    }
    at += RTA_ALIGN(attribute.rta_len);
  }
  return 0;
}

}  // namespace

bool isRoutedThrough(const std::string& interface, const Address& from, const Address& to) {
  if (from.family() != to.family()) return false;
  const UniqueFd kernel(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  const RouteRequest question(from, to);
  std::array<char, 4096> answer{};
  if (!kernel || ::send(kernel.get(), &question, question.head.nlmsg_len, 0) < 0) return false;
  // The kernel has queued the answer before send() returns.
  const ssize_t size = ::recv(kernel.get(), answer.data(), answer.size(), MSG_DONTWAIT);
  const unsigned index = size > 0 ? parseInterfaceIndex(answer.data(), static_cast<size_t>(size)) : 0;
  return index != 0 && index == ::if_nametoindex(interface.c_str());
}

}  // namespace bps::plugin::tcp
