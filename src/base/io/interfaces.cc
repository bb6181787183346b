#include "src/base/io/interfaces.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <string_view>

#include "src/base/format.h"

namespace bps {

namespace {

unsigned prefixBits(const sockaddr* mask) {
  if (mask == nullptr) return 0;
  unsigned bits = 0;
  const Address address(mask, mask->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  for (const uint8_t byte : address.ip()) bits += static_cast<unsigned>(std::popcount(byte));
  return bits;
}

}  // namespace

std::vector<Interface> interfaceAddresses() {
  std::vector<Interface> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, ::freeifaddrs);
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0) continue;
    const int family = i->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    const Address address(i->ifa_addr, family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    found.push_back({i->ifa_name, address, prefixBits(i->ifa_netmask)});
  }
  return found;
}

bool interfaceRuns(const std::string& name) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  if (name.size() >= sizeof(request.ifr_name)) return false;
  name.copy(request.ifr_name, name.size());
  if (::ioctl(socket.get(), SIOCGIFFLAGS, &request) != 0) return false;
  constexpr int kNeeded = IFF_UP | IFF_RUNNING;
  return (request.ifr_flags & kNeeded) == kNeeded;
}

namespace {

// Selects interfaces by name, in the grammar of NCCL_SOCKET_IFNAME.
class NameFilter {
 public:
  explicit NameFilter(std::string_view text) {
    exclude_ = !text.empty() && text.front() == '^';
    if (exclude_) text.remove_prefix(1);
    exact_ = !text.empty() && text.front() == '=';
    if (exact_) text.remove_prefix(1);
    while (!text.empty()) {
      const size_t comma = text.find(',');
      if (comma != 0) names_.emplace_back(text.substr(0, comma));
      text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    }
  }
  bool selects(std::string_view name) const {
    const bool named = std::any_of(names_.begin(), names_.end(), [&](const std::string& each) {
      return exact_ ? name == each : name.substr(0, each.size()) == each;
    });
    return named != exclude_;
  }

 private:
  bool exclude_ = false, exact_ = false;
  std::vector<std::string> names_;
};

// Returns each interface once, with its first address.
std::vector<Interface> interfacesUp(const std::vector<Interface>& addresses) {
  std::vector<Interface> found;
  for (const Interface& each : addresses) {
    const bool again = std::any_of(found.begin(), found.end(), [&](const Interface& f) { return f.name == each.name; });
    if (!again) found.push_back(each);
  }
  return found;
}

std::vector<Interface> only(const std::vector<Interface>& all, const NameFilter& filter) {
  std::vector<Interface> chosen;
  std::copy_if(all.begin(), all.end(), std::back_inserter(chosen),
               [&](const Interface& i) { return filter.selects(i.name); });
  return chosen;
}

}  // namespace

Result<std::vector<Interface>> selectInterfaces(const std::string& filter) {
  const std::vector<Interface> addresses = interfaceAddresses();
  const std::vector<Interface> all = interfacesUp(addresses);
  for (const Interface& each : addresses)
    if (filter == "=" + each.address.host()) return std::vector<Interface>{each};
  if (!filter.empty()) {
    std::vector<Interface> chosen = only(all, NameFilter(filter));
    if (!chosen.empty()) return chosen;
    std::string names;
    for (const Interface& i : all) names += " " + i.name;
    return failure(Code::kInvalidArgument,
                   "BPS_SOCKET_IFNAME or NCCL_SOCKET_IFNAME: \"{}\" selects no interface that is up (available:{})",
                   filter, names);
  }
  std::vector<Interface> chosen = only(all, NameFilter("^lo,docker,virbr"));
  if (chosen.empty()) chosen = only(all, NameFilter("^docker,virbr"));
  if (chosen.empty()) chosen = all;
  if (chosen.empty()) return Status(Code::kSystem, "no network interface is up");
  return chosen;
}

Result<UniqueFd> listenOnFirst(const std::string& filter, const PortRange& ports, int backlog) {
  Address address = BPS_TRY(selectInterfaces(filter)).front().address;
  address.setPort(0);
  return listenOn(address, ports, backlog);
}

}  // namespace bps
