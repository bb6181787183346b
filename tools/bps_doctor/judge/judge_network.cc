#include "tools/bps_doctor/judge/judge_network.h"

#include <algorithm>
#include <map>
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
          fmt::format("small packets from {} to {} pass, but full-size packets get lost (connection to {}, {})",
                      sender.name(), receiver.name(), way.address, way.error),
          fmt::format("an MTU black hole: give all links between them the same MTU (now {} of rank {}; {} of rank {}), "
                      "let ICMP \"fragmentation needed\" pass, or lower the MTU of the interfaces, for example ip link "
                      "set {} mtu 1400",
                      mtusOf(sender), sender.rank, mtusOf(receiver), receiver.rank, way.nic)};
}

Finding blocked(const Survey& survey, const WayResult& way, const Facts& from, const Facts& to) {
  Finding finding{Level::kProblem, "port",
                  fmt::format("{} cannot reach the data port of {} at {} ({}): {}", from.name(), to.name(), way.address,
                              way.nic, way.error),
                  ""};
  if (way.way == Way::kSilent || way.way == Way::kNoEcho) {
    finding.text += fmt::format(" within {} s", kAnswerTime.count());
    finding.fix = "a firewall seems to drop packets: ";
  } else if (way.way == Way::kRefused) {
    finding.fix = fmt::format("rank {} listens there, so a firewall seems to reject connections: ", to.rank);
  } else {
    finding.fix =
        "there is no route between these addresses: let BPS_SOCKET_IFNAME name an interface of the common "
        "network, and ";
  }
  finding.fix += fmt::format(
      "open the TCP ports of BPS_PORT_RANGE (now {}) between all worker machines (docs/ports.md)", survey.portRange);
  return finding;
}

// How many of the ranks on other machines reach an interface.
struct Reach {
  size_t good = 0, connected = 0, tested = 0;
  bool full() const { return tested > 0 && good == tested; }
};

using ReachOfNic = std::map<std::pair<int, std::string>, Reach>;  // by rank and interface

ReachOfNic reachOfAll(const Survey& survey) {
  ReachOfNic all;
  for (const WayResult& way : survey.ways) {
    Reach& reach = all[{way.to, way.nic}];
    ++reach.tested;
    if (way.way == Way::kGood) ++reach.good;
    if (way.way == Way::kGood || way.way == Way::kNoLarge) ++reach.connected;
  }
  return all;
}

bool severalHosts(const Survey& survey) {
  return std::any_of(survey.facts.begin(), survey.facts.end(),
                     [&](const auto& each) { return each.second.host != survey.facts.begin()->second.host; });
}

std::string useInterface(const NicFacts& nic, const Facts& facts) {
  return fmt::format("set BPS_SOCKET_IFNAME={} on host {}", nic.name, facts.host);
}

// Compares the first interface that bps uses with the other ones.
class NicJudge {
 public:
  NicJudge(const Survey& survey, std::vector<Finding>& findings)
      : severalHosts_(doctor::severalHosts(survey)), reach_(reachOfAll(survey)), findings_(findings) {}

  // Returns false if the interface of this rank is wrong.
  bool judge(const Facts& facts) {
    if (!facts.nicError.empty()) {
      add(Level::kProblem, facts.name() + ": " + facts.nicError,
          "unset BPS_SOCKET_IFNAME, or let it name an interface that is up");
      return false;
    }
    const auto used =
        std::find_if(facts.nics.begin(), facts.nics.end(), [](const NicFacts& nic) { return nic.chosen; });
    if (used == facts.nics.end()) return true;
    const Reach reach = reachOf(facts, *used);
    for (const NicFacts& other : facts.nics) {
      if (&other == &*used || !reachOf(facts, other).full()) continue;
      if (reach.tested > 0 && reach.connected == 0) return unreached(facts, *used, other);
      if (reach.full() && used->mbps > 0 && other.mbps > used->mbps && !other.chosen)
        return slower(facts, *used, other);
    }
    if (!used->isLoopback() || !severalHosts_) return true;
    add(Level::kProblem,
        fmt::format("{} uses the interface {}, which no other machine can reach", facts.name(), used->name),
        "unset BPS_SOCKET_IFNAME, or let it name the interface of the network between the machines");
    return false;
  }

 private:
  Reach reachOf(const Facts& facts, const NicFacts& nic) const {
    const auto found = reach_.find({facts.rank, nic.name});
    return found == reach_.end() ? Reach() : found->second;
  }
  void add(Level level, std::string text, std::string fix) {
    findings_.push_back({level, "nic", std::move(text), std::move(fix)});
  }
  bool unreached(const Facts& facts, const NicFacts& used, const NicFacts& other) {
    add(Level::kProblem,
        fmt::format("{} uses the interface {} ({}), which no other machine can reach; all of them reach {} ({})",
                    facts.name(), used.name, used.address, other.name, other.address),
        useInterface(other, facts));
    return false;
  }
  bool slower(const Facts& facts, const NicFacts& used, const NicFacts& other) {
    add(Level::kWarning,
        fmt::format("{} uses the interface {} ({}); all other machines also reach {}, which is faster ({})",
                    facts.name(), used.name, rateText(used.mbps), other.name, rateText(other.mbps)),
        useInterface(other, facts));
    return true;
  }

  bool severalHosts_;
  ReachOfNic reach_;
  std::vector<Finding>& findings_;
};

// True if this is the first interface that bps uses on its machine.
bool isFirst(const Facts& facts, const NicFacts& nic) { return &nic == &facts.nics.front(); }

void judgeWay(const Survey& survey, const WayResult& way, std::vector<Finding>& findings) {
  const auto from = survey.facts.find(way.from), to = survey.facts.find(way.to);
  if (way.way == Way::kGood || from == survey.facts.end() || to == survey.facts.end()) return;
  const NicFacts* nic = nicOf(to->second, way.nic);
  if (nic == nullptr || !nic->chosen) return;
  Finding finding = way.way == Way::kNoLarge ? blackHole(way, from->second, to->second)
                                             : blocked(survey, way, from->second, to->second);
  if (!isFirst(to->second, *nic)) {
    finding.level = Level::kWarning;
    finding.fix += fmt::format("; or let BPS_SOCKET_IFNAME leave out {}", nic->name);
  }
  findings.push_back(std::move(finding));
}

}  // namespace

void judgeNetwork(const Survey& survey, std::vector<Finding>& findings) {
  NicJudge nics(survey, findings);
  std::set<int> wrong;  // ranks
  for (const auto& [rank, facts] : survey.facts) {
    if (!nics.judge(facts)) wrong.insert(rank);
    for (const std::string& error : facts.listenErrors)
      findings.push_back({Level::kProblem, "port", facts.name() + " cannot listen on " + error,
                          "let BPS_PORT_RANGE contain free ports: at least one for each rank and each other machine"});
  }
  for (const WayResult& way : survey.ways)
    if (!wrong.contains(way.to)) judgeWay(survey, way, findings);
}

}  // namespace bps::doctor
