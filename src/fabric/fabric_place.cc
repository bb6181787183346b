#include "src/fabric/fabric_place.h"

#include <algorithm>
#include <array>
#include <optional>

#include "src/base/format.h"
#include "src/fabric/address_file.h"

namespace bps {
namespace {

// The largest last number of an IPv4 address of a machine.
constexpr size_t kMaxLastNumber = 254;

bool sameIp(const Address& a, const Address& b) { return std::ranges::equal(a.ip(), b.ip()); }

// The interface that has this IP address. All addresses 127.x.x.x are on the loopback interface.
const Interface* interfaceOf(const Address& ip, const std::vector<Interface>& interfaces) {
  const auto has = [&](const Interface& i) {
    if (i.address.family() != ip.family()) return false;
    return sameIp(i.address, ip) || (ip.family() == AF_INET && ip.isLoopback() && i.address.isLoopback());
  };
  const auto found = std::ranges::find_if(interfaces, has);
  return found == interfaces.end() ? nullptr : &*found;
}

bool inNetworkOf(const Interface& interface, const Address& ip) {
  const std::span<const uint8_t> own = interface.address.ip(), other = ip.ip();
  if (own.size() != other.size()) return false;
  for (size_t bit = 0; bit < std::min<size_t>(interface.prefixBits, own.size() * 8); ++bit)
    if ((((own[bit / 8] ^ other[bit / 8]) >> (7 - bit % 8)) & 1) != 0) return false;
  return true;
}

std::string networkText(const Interface& interface) {
  return fmt::format("{} ({}/{})", interface.name, interface.address.host(), interface.prefixBits);
}

std::string machineText(const Bcube& shape, size_t address, size_t level) {
  return fmt::format("machine {}, level {}", shape.addressText(address), level);
}

// The first IP address of a machine in the file that is on no interface of this machine.
const Address* foreignIp(const AddressFile::Machine& machine, const std::vector<Interface>& interfaces) {
  const auto foreign = [&](const Address& ip) { return interfaceOf(ip, interfaces) == nullptr; };
  const auto found = std::ranges::find_if(machine.levels, foreign);
  return found == machine.levels.end() ? nullptr : &*found;
}

std::string namesOf(const std::vector<Interface>& interfaces) {
  std::string names;
  for (const Interface& each : interfaces)
    names += (names.empty() ? "" : ", ") + fmt::format("{} {}", each.name, each.address.host());
  return names.empty() ? "none" : names;
}

Result<size_t> findSelf(const Bcube& shape, const AddressFile& file, const std::vector<Interface>& interfaces) {
  std::optional<size_t> self;
  std::string almost;
  for (size_t machine = 0; machine < shape.machines(); ++machine) {
    const std::vector<Address>& ips = file.machines[machine].levels;
    if (const Address* foreign = foreignIp(file.machines[machine], interfaces)) {
      const bool some = std::ranges::any_of(ips, [&](const Address& ip) { return interfaceOf(ip, interfaces); });
      if (some && almost.empty())
        almost = fmt::format(
            "; {}: machine {} has an IP address of this machine, but also {}, which is on no "
            "interface that is up",
            file.at(machine), shape.addressText(machine), foreign->host());
      continue;
    }
    if (self)
      return failure(Code::kInvalidArgument,
                     "{}: the IP addresses of machine {} and, in line {}, of machine {} are all on this machine; name "
                     "this machine with address=DIGITS in BPS_FABRIC",
                     file.at(*self), shape.addressText(*self), file.machines[machine].line, shape.addressText(machine));
    self = machine;
  }
  if (self) return *self;
  return failure(Code::kInvalidArgument, "{}: no line has only IP addresses of this machine ({}){}", file.path,
                 namesOf(interfaces), almost);
}

Result<FabricPlace> placeFromFile(const FabricSpec& spec, const std::vector<Interface>& interfaces) {
  const Bcube& shape = spec.shape;
  const AddressFile file = BPS_TRY(readAddressFile(spec.addressFile, shape));
  FabricPlace place{shape, 0, {}};
  place.address =
      spec.address.empty() ? BPS_TRY(findSelf(shape, file, interfaces)) : BPS_TRY(shape.parseAddress(spec.address));
  const AddressFile::Machine& self = file.machines[place.address];
  if (const Address* foreign = foreignIp(self, interfaces))
    return failure(
        Code::kInvalidArgument, "{}: {}, which is this machine, has {}, which is on no interface that is up ({})",
        file.at(place.address), "machine " + shape.addressText(place.address), foreign->host(), namesOf(interfaces));
  for (size_t level = 0; level < shape.k(); ++level) {
    const Interface& own = *interfaceOf(self.levels[level], interfaces);
    place.levels.push_back({own.name, {}});
    for (size_t digit = 0; digit < shape.n(); ++digit) {
      const size_t machine = shape.neighbour(place.address, level, digit);
      const Address& ip = file.machines[machine].levels[level];
      if (!inNetworkOf(own, ip))
        return failure(Code::kInvalidArgument, "{}: {} ({}) is not in the network of {}, which is level {} of {}",
                       file.at(machine), ip.host(), machineText(shape, machine, level), networkText(own), level,
                       "this machine, " + shape.addressText(place.address));
      place.levels.back().machines.push_back(ip);
    }
  }
  return place;
}

// The names in BPS_SOCKET_IFNAME. Empty if it does not list interfaces.
std::vector<std::string> listedNames(std::string filter) {
  if (filter.starts_with('^')) return {};
  if (filter.starts_with('=')) filter.erase(0, 1);
  std::vector<std::string> names;
  while (!filter.empty()) {
    const size_t comma = std::min(filter.find(','), filter.size());
    if (comma > 0) names.push_back(filter.substr(0, comma));
    filter.erase(0, comma + 1);
  }
  return names;
}

// The interface with this name and an IPv4 address, or, if there is none, the only one whose name begins so.
Result<Interface> interfaceNamed(const std::string& name, const std::vector<Interface>& interfaces) {
  std::optional<Interface> found;
  for (const Interface& each : interfaces) {
    if (each.address.family() != AF_INET || !each.name.starts_with(name)) continue;
    if (each.name == name) return each;
    if (found && found->name != each.name)
      return failure(Code::kInvalidArgument, "BPS_SOCKET_IFNAME: \"{}\" is {} and {}, but a level has one interface",
                     name, found->name, each.name);
    if (!found) found = each;
  }
  if (found) return std::move(*found);
  return failure(Code::kInvalidArgument,
                 "BPS_SOCKET_IFNAME: \"{}\" is no interface that is up with an IPv4 address ({})", name,
                 namesOf(interfaces));
}

Address withLastNumber(const Address& ip, size_t number) {
  std::array<uint8_t, sizeof(in_addr)> bytes{};
  std::ranges::copy(ip.ip(), bytes.begin());
  bytes.back() = static_cast<uint8_t>(number);
  return Address::of(bytes, 0);
}

Result<FabricPlace> placeFromInterfaces(const FabricSpec& spec, const std::vector<Interface>& interfaces,
                                        const std::string& filter) {
  const Bcube& shape = spec.shape;
  const std::vector<std::string> names = listedNames(filter);
  if (names.size() != shape.k())
    return failure(Code::kInvalidArgument,
                   "BPS_FABRIC without addresses=FILE: BPS_SOCKET_IFNAME must list the interfaces of the {} levels of "
                   "{}, but is \"{}\"",
                   shape.k(), shape.text(), filter);
  if (shape.n() > kMaxLastNumber)
    return failure(Code::kInvalidArgument, "BPS_FABRIC: n={} needs addresses=FILE: without it, n is at most {}",
                   shape.n(), kMaxLastNumber);
  FabricPlace place{shape, 0, {}};
  size_t weight = 1;
  for (size_t level = 0; level < shape.k(); ++level, weight *= shape.n()) {
    const Interface own = BPS_TRY(interfaceNamed(names[level], interfaces));
    const size_t last = own.address.ip().back();
    if (last < 1 || last > shape.n())
      return failure(Code::kInvalidArgument,
                     "BPS_FABRIC: {} is level {}: the last number of {} must be digit {} of this machine plus 1, "
                     "so from 1 to {}",
                     own.name, level, own.address.host(), level, shape.n());
    place.address += (last - 1) * weight;
    place.levels.push_back({own.name, {}});
    for (size_t digit = 0; digit < shape.n(); ++digit) {
      const Address ip = withLastNumber(own.address, digit + 1);
      if (!inNetworkOf(own, ip))
        return failure(Code::kInvalidArgument, "BPS_FABRIC: level {}: {} is not in the network of {}", level, ip.host(),
                       networkText(own));
      place.levels.back().machines.push_back(ip);
    }
  }
  if (!spec.address.empty() && BPS_TRY(shape.parseAddress(spec.address)) != place.address)
    return failure(Code::kInvalidArgument, "BPS_FABRIC: address={}, but the IP addresses of {} are those of machine {}",
                   spec.address, filter, shape.addressText(place.address));
  return place;
}

}  // namespace

Result<FabricPlace> findPlace(const FabricSpec& spec, const std::vector<Interface>& interfaces,
                              const std::string& filter) {
  return spec.addressFile.empty() ? placeFromInterfaces(spec, interfaces, filter) : placeFromFile(spec, interfaces);
}

}  // namespace bps
