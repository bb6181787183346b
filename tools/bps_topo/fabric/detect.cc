#include "tools/bps_topo/fabric/detect.h"

#include <algorithm>

#include "src/base/format.h"

namespace bps {
namespace {

// The port that the proposal names. Any free port is as good.
constexpr int kRelayPort = 7799;

std::string networkText(const Interface& interface) {
  return fmt::format("{} ({}/{})", interface.name, interface.address.host(), interface.prefixBits);
}

bool inSameNetwork(const Interface& a, const Interface& b) {
  const std::span<const uint8_t> first = a.address.ip(), second = b.address.ip();
  for (size_t bit = 0; bit < std::min(a.prefixBits, b.prefixBits); ++bit)
    if ((((first[bit / 8] ^ second[bit / 8]) >> (7 - bit % 8)) & 1) != 0) return false;
  return true;
}

std::vector<Address> inOrder(std::vector<Address> addresses) {
  std::ranges::sort(addresses, [](const Address& a, const Address& b) {
    return std::ranges::lexicographical_compare(a.ip(), b.ip());
  });
  return addresses;
}

// The addresses of the machines of a level, in the order of their numbers.
std::vector<Address> machinesOf(const LevelSurvey& level) {
  std::vector<Address> machines = level.neighbours;
  machines.push_back(level.own.address);
  return inOrder(std::move(machines));
}

bool endInOneToN(const std::vector<Address>& machines) {
  for (size_t digit = 0; digit < machines.size(); ++digit)
    if (machines[digit].ip().back() != digit + 1) return false;
  return true;
}

// The levels have the same number of neighbours, and at least one.
Status checkNeighbours(const std::vector<LevelSurvey>& levels) {
  for (size_t level = 0; level < levels.size(); ++level)
    if (levels[level].neighbours.empty())
      return failure(Code::kInvalidArgument,
                     "no BCube: level {}: no other machine answers in the network of {}; check its cable, and that the "
                     "other machines of its switch are up",
                     level, networkText(levels[level].own));
  const size_t first = levels[0].neighbours.size();
  for (size_t level = 1; level < levels.size(); ++level)
    if (levels[level].neighbours.size() != first)
      return failure(Code::kInvalidArgument,
                     "no BCube: level 0 ({}) has {} neighbours, but level {} ({}) has {}, and all levels must have the "
                     "same number; a machine or a cable is missing, or --interfaces must name the interfaces of the "
                     "levels",
                     levels[0].own.name, first, level, levels[level].own.name, levels[level].neighbours.size());
  return {};
}

}  // namespace

Status checkInterfaces(const std::vector<Interface>& interfaces) {
  std::string names;
  for (const Interface& each : interfaces) names += (names.empty() ? "" : ", ") + networkText(each);
  if (interfaces.size() < 2)
    return failure(Code::kInvalidArgument,
                   "no BCube: a machine has at least two levels, each with an interface, but there is {}; name the "
                   "interfaces with --interfaces",
                   names.empty() ? "none" : "only " + names);
  for (size_t b = 1; b < interfaces.size(); ++b)
    for (size_t a = 0; a < b; ++a)
      if (inSameNetwork(interfaces[a], interfaces[b]))
        return failure(Code::kInvalidArgument,
                       "no BCube: {} and {} are in the same network, but each level must be a network of its own; if "
                       "all machines are in one switch, do not use BPS_FABRIC",
                       networkText(interfaces[a]), networkText(interfaces[b]));
  return {};
}

Result<FabricProposal> proposeFabric(const std::vector<LevelSurvey>& levels) {
  std::vector<Interface> interfaces;
  interfaces.reserve(levels.size());
  for (const LevelSurvey& each : levels) interfaces.push_back(each.own);
  BPS_TRY(checkInterfaces(interfaces));
  BPS_TRY(checkNeighbours(levels));
  Result<Bcube> shape = Bcube::create(levels[0].neighbours.size() + 1, levels.size());
  if (!shape.ok()) return std::move(shape).status().within("no BCube that bps can use");
  FabricProposal proposal{std::move(shape).value(), 0, false, "", ""};
  std::string ips;
  for (size_t level = 0; level < levels.size(); ++level) {
    const std::vector<Address> machines = machinesOf(levels[level]);
    const Address& own = levels[level].own.address;
    const auto isOwn = [&](const Address& each) { return std::ranges::equal(each.ip(), own.ip()); };
    const auto digit = static_cast<size_t>(std::ranges::find_if(machines, isOwn) - machines.begin());
    proposal.address = proposal.shape.neighbour(proposal.address, level, digit);
    proposal.needsFile = proposal.needsFile || !endInOneToN(machines);
    proposal.interfaces += (level == 0 ? "" : ",") + levels[level].own.name;
    ips += " " + own.host();
  }
  proposal.addressLine = proposal.shape.addressText(proposal.address) + ips;
  return proposal;
}

std::string surveyText(const std::vector<LevelSurvey>& levels) {
  std::string text = fmt::format("{:<6} {:<12} {:<19} {}\n", "level", "interface", "address", "neighbours that answer");
  for (size_t level = 0; level < levels.size(); ++level) {
    const Interface& own = levels[level].own;
    std::string hosts;
    for (const Address& each : inOrder(levels[level].neighbours)) hosts += (hosts.empty() ? "" : " ") + each.host();
    text += fmt::format("{:<6} {:<12} {:<19} {}\n", level, own.name,
                        fmt::format("{}/{}", own.address.host(), own.prefixBits), hosts.empty() ? "none" : hosts);
  }
  return text;
}

std::string proposalText(const FabricProposal& proposal) {
  const Bcube& shape = proposal.shape;
  std::string text = fmt::format("\nThis machine is {} of {}, if all {} machines find the same shape.\n",
                                 shape.addressText(proposal.address), shape.text(), shape.machines());
  if (proposal.needsFile)
    text += fmt::format(
        "The IP addresses of a level do not end in 1 to {}, so an address file must list the machines. The line of "
        "this "
        "machine:\n{}\n",
        shape.n(), proposal.addressLine);
  text += fmt::format("export BPS_FABRIC=bcube:n={},k={}{},relay={}\n", shape.n(), shape.k(),
                      proposal.needsFile ? ",addresses=FILE" : "", kRelayPort);
  return text + fmt::format("export BPS_SOCKET_IFNAME={}\n", proposal.interfaces);
}

}  // namespace bps
