#include "tools/bps_doctor/judge_network.h"

#include <algorithm>
#include <set>

#include "src/base/format.h"

namespace bps::doctor {
namespace {

const NicFacts* nicOf(const Facts& facts, const std::string& name) {
  for (const NicFacts& nic : facts.nics)
    if (nic.name == name) return &nic;
  return nullptr;
}

std::string rateText(int mbps) { return mbps > 0 ? fmt::format("{:g} Gbit/s", mbps / 1e3) : "unknown rate"; }

std::string mtusOf(const Facts& facts) {
  std::string text;
  for (const NicFacts& nic : facts.nics)
    if (nic.chosen) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", nic.name, nic.mtu);
  return text;
}

Finding blackHole(const WayResult& way, const Facts& from, const Facts& to) {
  const Facts& sender = way.outStuck ? from : to;
  const Facts& receiver = way.outStuck ? to : from;
  return {Level::kProblem, "mtu",
          fmt::format("{} and {} ({}): small messages pass, but full-size segments from {} to {} get lost{}",
                      from.name(), to.name(), way.address, sender.name(), receiver.name(),
                      way.error == "no answer" ? "" : " (" + way.error + ")"),
          fmt::format("an MTU black hole: give all links on the way the same MTU (here {} of rank {}; {} of rank {}), "
                      "or let ICMP \"fragmentation needed\" pass, or set a smaller MTU on the interfaces",
                      mtusOf(sender), sender.rank, mtusOf(receiver), receiver.rank)};
}

Finding blocked(const Survey& survey, const WayResult& way, const Facts& from, const Facts& to) {
  Finding finding{Level::kProblem, "port",
                  fmt::format("{} cannot reach {} at {} ({}): {}", from.name(), to.name(), way.address, way.nic,
                              way.error),
                  ""};
  if (way.way == Way::kSilent || way.way == Way::kNoEcho) {
    finding.text += fmt::format(" within {} s", kAnswerTime.count());
    finding.fix = "a firewall drops packets: ";
  } else if (way.way == Way::kRefused) {
    finding.fix = "rank " + std::to_string(to.rank) + " listens there, so a firewall rejects the connection: ";
  } else {
    finding.fix = "there is no route between these addresses: let BPS_SOCKET_IFNAME name an interface of the common "
                  "network, and ";
  }
  finding.fix += fmt::format("open the TCP ports of BPS_PORT_RANGE (now {}) between all worker machines, see "
                             "docs/ports.md",
                             survey.portRange);
  return finding;
}

struct Reach {
  size_t good = 0, tested = 0;
  bool full() const { return tested > 0 && good == tested; }
};

// How many of the other ranks reach this NIC.
Reach reachOf(const Survey& survey, int rank, const std::string& nic) {
  Reach reach;
  for (const WayResult& way : survey.ways) {
    if (way.to != rank || way.nic != nic) continue;
    ++reach.tested;
    if (way.way == Way::kGood) ++reach.good;
  }
  return reach;
}

bool severalHosts(const Survey& survey) {
  return std::any_of(survey.facts.begin(), survey.facts.end(),
                     [&](const auto& each) { return each.second.host != survey.facts.begin()->second.host; });
}

bool isLoopback(const NicFacts& nic) { return nic.address.rfind("127.", 0) == 0 || nic.address == "::1"; }

// Compares the interface that bps uses with the other ones.
void judgeNicsOf(const Survey& survey, const Facts& facts, std::vector<Finding>& findings) {
  const NicFacts* best = nullptr;
  Reach chosen;
  for (const NicFacts& nic : facts.nics) {
    if (!nic.chosen) continue;
    if (best == nullptr || nic.mbps > best->mbps) best = &nic;
    const Reach reach = reachOf(survey, facts.rank, nic.name);
    if (chosen.tested == 0 || reach.good > chosen.good) chosen = reach;
  }
  if (best == nullptr) return;
  if (isLoopback(*best) && severalHosts(survey)) {
    findings.push_back({Level::kProblem, "nic",
                        fmt::format("{} uses {}, which no other machine can reach", facts.name(), best->name),
                        "unset BPS_SOCKET_IFNAME, or let it name the interface of the network between the machines"});
    return;
  }
  for (const NicFacts& other : facts.nics) {
    if (other.chosen) continue;
    const Reach reach = reachOf(survey, facts.rank, other.name);
    const bool faster = best->mbps > 0 && other.mbps > best->mbps;
    const bool better = chosen.tested > 0 && !chosen.full() && reach.full();
    if (!reach.full() || (!faster && !better)) continue;
    findings.push_back({Level::kProblem, "nic",
                        fmt::format("{} uses {} ({}), {}, but all other ranks also reach {} ({})", facts.name(),
                                    best->name, rateText(best->mbps),
                                    better ? "which some ranks do not reach" : "which is slower", other.name,
                                    rateText(other.mbps)),
                        fmt::format("export BPS_SOCKET_IFNAME={} on host {}", other.name, facts.host)});
    return;
  }
}

}  // namespace

void judgeWays(const Survey& survey, std::vector<Finding>& findings) {
  for (const WayResult& way : survey.ways) {
    const auto from = survey.facts.find(way.from), to = survey.facts.find(way.to);
    if (way.way == Way::kGood || from == survey.facts.end() || to == survey.facts.end()) continue;
    const NicFacts* nic = nicOf(to->second, way.nic);
    if (nic == nullptr || !nic->chosen) continue;
    findings.push_back(way.way == Way::kNoLarge ? blackHole(way, from->second, to->second)
                                                : blocked(survey, way, from->second, to->second));
  }
}

void judgeNics(const Survey& survey, std::vector<Finding>& findings) {
  for (const auto& [rank, facts] : survey.facts) judgeNicsOf(survey, facts, findings);
}

}  // namespace bps::doctor
