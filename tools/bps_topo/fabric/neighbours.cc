#include "tools/bps_topo/fabric/neighbours.h"

#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <thread>

#include "src/base/format.h"
#include "src/base/io/fd.h"

namespace bps {
namespace {

constexpr uint16_t kDiscardPort = 9;
constexpr std::chrono::milliseconds kPause(100);
constexpr timeval kTableTimeout{2, 0};
constexpr uint16_t kAnswers = NUD_REACHABLE | NUD_STALE | NUD_PERMANENT;
constexpr uint16_t kUndecided = NUD_INCOMPLETE | NUD_DELAY | NUD_PROBE;

// The kernel's table of neighbours of an interface: states (NUD_*) by IPv4 address in network order.
using States = std::map<std::array<uint8_t, 4>, uint16_t>;

std::array<uint8_t, 4> bytesOf(const Address& address) {
  std::array<uint8_t, 4> bytes{};
  std::ranges::copy(address.ip().first(bytes.size()), bytes.begin());
  return bytes;
}

// Adds the entry of a message of the kernel to `states`, if the entry is of this interface.
void addEntry(const nlmsghdr* header, unsigned interface, States& states) {
  const auto* entry = static_cast<const ndmsg*>(NLMSG_DATA(header));
  if (entry->ndm_family != AF_INET || static_cast<unsigned>(entry->ndm_ifindex) != interface) return;
  auto left = static_cast<int>(header->nlmsg_len - NLMSG_LENGTH(sizeof(ndmsg)));
  const auto* at = reinterpret_cast<const rtattr*>(reinterpret_cast<const char*>(entry) + NLMSG_ALIGN(sizeof(ndmsg)));
  for (; RTA_OK(at, left); at = RTA_NEXT(at, left)) {
    std::array<uint8_t, 4> ip{};
    if (at->rta_type != NDA_DST || RTA_PAYLOAD(at) != ip.size()) continue;
    std::memcpy(ip.data(), RTA_DATA(at), ip.size());
    states[ip] = entry->ndm_state;
  }
}

Result<States> readTable(unsigned interface) {
  const UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  if (!fd) return systemFailure("the kernel's table of neighbours", errno);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kTableTimeout, sizeof(kTableTimeout));
  struct {
    nlmsghdr header;
    ndmsg entry;
  } request{};
  request.header = {sizeof(request), RTM_GETNEIGH, NLM_F_REQUEST | NLM_F_DUMP, 1, 0};
  request.entry.ndm_family = AF_INET;
  if (::send(fd.get(), &request, sizeof(request), 0) < 0)
    return systemFailure("the kernel's table of neighbours", errno);
  States states;
  alignas(nlmsghdr) std::array<char, 1 << 16> buffer;
  while (true) {
    const ssize_t received = ::recv(fd.get(), buffer.data(), buffer.size(), 0);
    if (received < 0) return systemFailure("the kernel's table of neighbours", errno);
    auto left = static_cast<size_t>(received);
    const auto* header = reinterpret_cast<const nlmsghdr*>(buffer.data());
    for (; NLMSG_OK(header, left); header = NLMSG_NEXT(header, left)) {
      if (header->nlmsg_type == NLMSG_DONE) return states;
      if (header->nlmsg_type == NLMSG_ERROR)
        return failure(Code::kSystem, "the kernel's table of neighbours cannot be read");
      if (header->nlmsg_type == RTM_NEWNEIGH) addEntry(header, interface, states);
    }
  }
}

// Sends an empty datagram to each candidate, from the address of the interface.
Status probe(const Interface& own, const std::vector<Address>& addresses) {
  const UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return systemFailure(own.name, errno);
  Address from = own.address;
  from.setPort(0);
  if (::bind(fd.get(), from.data(), from.length()) != 0)
    return systemFailure(fmt::format("{}: {}", own.name, own.address.host()), errno);
  for (Address to : addresses) {
    to.setPort(kDiscardPort);
    const bool sent = ::sendto(fd.get(), nullptr, 0, MSG_NOSIGNAL, to.data(), to.length()) >= 0;
    // If the queue is full, the kernel resolves the address nevertheless. An unreachable host is one that is known to
    // be silent.
    if (!sent && errno != EAGAIN && errno != ENOBUFS && errno != EHOSTUNREACH && errno != ECONNREFUSED)
      return systemFailure(fmt::format("{}: a datagram to {}", own.name, to.host()), errno);
  }
  return {};
}

std::string namesOf(const std::vector<Interface>& interfaces) {
  std::string names;
  for (const Interface& each : interfaces)
    names += (names.empty() ? "" : ", ") + fmt::format("{} {}", each.name, each.address.host());
  return names.empty() ? "none" : names;
}

bool hasIpv4(const Interface& interface) { return interface.address.family() == AF_INET; }

// The names in BPS_SOCKET_IFNAME that all are names of interfaces. Otherwise it is a filter, which has no order.
std::vector<std::string> listedNames(std::string filter, const std::vector<Interface>& interfaces) {
  std::vector<std::string> names;
  while (!filter.empty()) {
    const size_t comma = std::min(filter.find(','), filter.size());
    const std::string name = filter.substr(0, comma);
    if (std::ranges::none_of(interfaces, [&](const Interface& each) { return each.name == name; })) return {};
    names.push_back(name);
    filter.erase(0, comma + 1);
  }
  return names;
}

}  // namespace

std::vector<Address> candidates(const Interface& own) {
  constexpr unsigned kBits = 32, kLastBits = 8, kLeastHostBits = 2;
  const unsigned hostBits = kBits - std::min(own.prefixBits, kBits), free = std::min(hostBits, kLastBits);
  const std::array<uint8_t, 4> bytes = bytesOf(own.address);
  const unsigned first = bytes.back() >> free << free, count = 1U << free;
  // The first and the last address of a network with more than two are not those of a machine.
  const bool hasBroadcast = hostBits >= kLeastHostBits;
  std::vector<Address> found;
  for (unsigned i = hasBroadcast ? 1 : 0; i < (hasBroadcast ? count - 1 : count); ++i) {
    std::array<uint8_t, 4> other = bytes;
    other.back() = static_cast<uint8_t>(first + i);
    if (other != bytes) found.push_back(Address::of(other, 0));
  }
  return found;
}

Result<std::vector<Interface>> chooseInterfaces(std::vector<std::string> names, const std::string& filter) {
  const std::vector<Interface> all = interfaceAddresses();
  if (names.empty()) names = listedNames(filter, all);
  if (names.empty()) {
    std::vector<Interface> selected = BPS_TRY(selectInterfaces(filter));
    std::erase_if(selected, [](const Interface& each) { return !hasIpv4(each); });
    return selected;
  }
  std::vector<Interface> chosen;
  for (const std::string& name : names) {
    const auto found =
        std::ranges::find_if(all, [&](const Interface& each) { return each.name == name && hasIpv4(each); });
    if (found == all.end())
      return failure(Code::kInvalidArgument, "\"{}\" is no interface that is up with an IPv4 address ({})", name,
                     namesOf(all));
    chosen.push_back(*found);
  }
  return chosen;
}

Result<std::vector<std::vector<Address>>> askNeighbours(const std::vector<Interface>& interfaces, Deadline deadline) {
  for (const Interface& each : interfaces) BPS_TRY(probe(each, candidates(each)));
  std::vector<std::vector<Address>> answers(interfaces.size());
  bool decided = false;
  while (!decided) {
    decided = deadline.passed();
    std::this_thread::sleep_for(kPause);
    bool undecided = false;
    for (size_t i = 0; i < interfaces.size(); ++i) {
      const States states = BPS_TRY(readTable(::if_nametoindex(interfaces[i].name.c_str())));
      answers[i].clear();
      for (const Address& each : candidates(interfaces[i])) {
        const auto state = states.find(bytesOf(each));
        if (state == states.end()) continue;
        if ((state->second & kAnswers) != 0) answers[i].push_back(each);
        undecided = undecided || (state->second & kUndecided) != 0;
      }
    }
    decided = decided || !undecided;
  }
  return answers;
}

}  // namespace bps
