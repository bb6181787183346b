#include "tools/bps_doctor/report.h"

#include <algorithm>
#include <map>
#include <set>

#include "src/base/format.h"

namespace bps::doctor {
namespace {

constexpr size_t kMostOfOneCheck = 8;  // findings that the text shows; the JSON has all

const char* levelName(Level level) {
  switch (level) {
    case Level::kWarning:
      return "WARNING";
    case Level::kUnchecked:
      return "NOT CHECKED";
    case Level::kProblem:
      return "PROBLEM";
  }
  return "?";
}

const char* wayName(Way way) {
  switch (way) {
    case Way::kGood:
      return "good";
    case Way::kSilent:
      return "no answer";
    case Way::kRefused:
      return "refused";
    case Way::kUnreachable:
      return "unreachable";
    case Way::kNoEcho:
      return "no echo";
    case Way::kNoLarge:
      return "no full-size segments";
  }
  return "?";
}

std::string sizeText(uint64_t bytes) {
  if (bytes == UINT64_MAX) return "unlimited";
  if (bytes >= uint64_t{10} << 30) return fmt::format("{} GiB", bytes >> 30);
  return bytes >= uint64_t{1} << 20 ? fmt::format("{} MiB", bytes >> 20) : fmt::format("{} KiB", bytes >> 10);
}

// The longest and the shortest round trip from one rank to all others, in microseconds.
std::string roundTripText(const Survey& survey, int rank) {
  double least = 0, most = 0;
  for (const WayResult& way : survey.ways) {
    if (way.from != rank || way.roundTrip == 0) continue;
    least = least == 0 ? way.roundTrip : std::min(least, way.roundTrip);
    most = std::max(most, way.roundTrip);
  }
  return most == 0 ? "-" : fmt::format("{:.0f}-{:.0f}", least * 1e6, most * 1e6);
}

std::string rankLines(const Survey& survey) {
  std::string text =
      fmt::format("{:>5} {:<16} {:<10} {:<16} {:>8} {:>6} {:>12} {:>9} {:>9} {:>10} {:>9}\n", "rank", "host",
                  "interface", "address", "Gbit/s", "MTU", "RTT us", "clock s", "nofile", "memlock", "/dev/shm");
  for (const auto& [rank, facts] : survey.facts) {
    const auto clock = survey.clocks.find(rank);
    const std::string ahead = clock == survey.clocks.end() ? "-" : fmt::format("{:+.3f}", clock->second);
    bool first = true;
    for (const NicFacts& nic : facts.nics) {
      if (!nic.chosen) continue;
      const std::string rate = nic.mbps > 0 ? fmt::format("{:g}", nic.mbps / 1e3) : "?";
      text += fmt::format("{:>5} {:<16} {:<10} {:<16} {:>8} {:>6} ", rank, first ? facts.host : "", nic.name,
                          nic.address, rate, nic.mtu);
      text += first ? fmt::format("{:>12} {:>9} {:>9} {:>10} {:>9}\n", roundTripText(survey, rank), ahead, facts.nofile,
                                  sizeText(facts.memlock), sizeText(facts.shmFree))
                    : "\n";
      first = false;
    }
  }
  return text;
}

std::string serverLines(const Survey& survey) {
  std::string text;
  for (const std::string& name : survey.serverNames) {
    size_t good = 0, all = 0;
    const ServerResult* seen = nullptr;
    for (const ServerResult& each : survey.servers) {
      if (each.name != name) continue;
      ++all;
      if (!each.error.empty()) continue;
      ++good;
      if (seen == nullptr) seen = &each;
    }
    text += fmt::format("server {}: usable from {} of {} machines", name, good, all);
    if (seen != nullptr)
      text += fmt::format(", version {}, round trip {:.0f} us, {} of {} jobs, {:.1f} MB/s summed, data over {}",
                          seen->version, seen->roundTrip * 1e6, seen->jobs, seen->maxJobs, seen->bytesPerSecond / 1e6,
                          seen->transport);
    text += "\n";
  }
  return text;
}

std::string reduceLine(const Survey& survey) {
  const ReduceResult& reduce = survey.reduce;
  if (!reduce.ran) return "all-reduce: not run\n";
  if (!reduce.error.empty()) return "all-reduce: failed\n";
  const double expected = expectedSeconds(survey);
  return fmt::format("all-reduce of {} bytes: {:.3f} ms over {} machines and {} servers; {}\n", reduce.bytes,
                     reduce.seconds * 1e3, reduce.machines, reduce.servers,
                     expected > 0 ? fmt::format("the rates of the NICs allow {:.3f} ms", expected * 1e3)
                                  : "no expected time, because a NIC's rate is unknown (BPS_BANDWIDTH sets it)");
}

std::string verdict(const std::vector<Finding>& findings) {
  const auto count = [&](Level level) {
    return std::count_if(findings.begin(), findings.end(), [&](const Finding& each) { return each.level == level; });
  };
  const auto problems = count(Level::kProblem), warnings = count(Level::kWarning), open = count(Level::kUnchecked);
  if (problems > 0) return fmt::format("verdict: problems: {}, warnings: {}\n", problems, warnings);
  if (open > 0) return fmt::format("verdict: {} checks could not be made, warnings: {}\n", open, warnings);
  return fmt::format("verdict: all right, warnings: {}\n", warnings);
}

}  // namespace

std::string findingsText(const std::vector<Finding>& findings) {
  std::string text;
  std::map<std::string, size_t> shown;
  for (const Finding& each : findings) {
    if (++shown[each.check] > kMostOfOneCheck) continue;
    text += fmt::format("{} {}: {}\n", levelName(each.level), each.check, each.text);
    if (!each.fix.empty()) text += fmt::format("    fix: {}\n", each.fix);
  }
  for (const auto& [check, count] : shown)
    if (count > kMostOfOneCheck)
      text += fmt::format("{}: {} more of this kind (--json lists them)\n", check, count - kMostOfOneCheck);
  return text;
}

std::string reportText(const Survey& survey, const std::vector<Finding>& findings) {
  std::set<std::string> machines;
  for (const auto& [rank, facts] : survey.facts) machines.insert(facts.hostId);
  const std::string head =
      fmt::format("bps-doctor: version {}, {} of {} ranks on {} machines, {} servers\n", survey.facts.at(0).version,
                  survey.facts.size(), survey.ranks, machines.size(), survey.serverNames.size());
  return head + rankLines(survey) + serverLines(survey) + reduceLine(survey) + findingsText(findings) +
         verdict(findings);
}

std::string reportJson(const Survey& survey, const std::vector<Finding>& findings) {
  nlohmann::ordered_json json = {{"ranks", survey.ranks}, {"exit_status", exitStatus(findings)}};
  json["findings"] = nlohmann::ordered_json::array();
  for (const Finding& each : findings)
    json["findings"].push_back(
        {{"level", levelName(each.level)}, {"check", each.check}, {"text", each.text}, {"fix", each.fix}});
  json["facts"] = nlohmann::ordered_json::array();
  for (const auto& [rank, facts] : survey.facts) {
    nlohmann::json entry = facts;
    const auto clock = survey.clocks.find(rank);
    if (clock != survey.clocks.end()) entry["clock_ahead_seconds"] = clock->second;
    json["facts"].push_back(entry);
  }
  json["ways"] = nlohmann::ordered_json::array();
  for (const WayResult& way : survey.ways)
    json["ways"].push_back({{"from", way.from},
                            {"to", way.to},
                            {"interface", way.nic},
                            {"address", way.address},
                            {"way", wayName(way.way)},
                            {"error", way.error},
                            {"round_trip_seconds", way.roundTrip}});
  json["servers"] = nlohmann::json(survey.servers);
  json["all_reduce"] = nlohmann::json(survey.reduce);
  json["all_reduce"]["expected_seconds"] = expectedSeconds(survey);
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace bps::doctor
