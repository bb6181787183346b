#include "tools/bps_topo/fabric/level_interfaces.h"

#include <algorithm>

#include "src/base/format.h"

namespace bps {
namespace {

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

}  // namespace bps
