#include "tools/bps_doctor/report/report.h"

#include <algorithm>
#include <map>

#include "src/base/format.h"
#include "tools/bps_doctor/report/table.h"

namespace bps::doctor {
namespace {

constexpr size_t kMostOfOneCheck = 8;  // findings that the text shows; the JSON has all

const char* levelName(Level level) {
  switch (level) {
    case Level::kWarning:
      return "WARNING";
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
  const ExpectedTime expected = expectedTime(survey);
  const char* basis = expected.measured ? "the rate measured at the start allows" : "the rates of the NICs allow";
  return fmt::format("all-reduce of {} bytes: {:.3f} ms over {} machines and {} servers; {}\n", reduce.bytes,
                     reduce.seconds * 1e3, reduce.machines, reduce.servers,
                     expected.seconds > 0
                         ? fmt::format("{} {:.3f} ms", basis, expected.seconds * 1e3)
                         : "no expected time, because a NIC's rate is unknown (BPS_BANDWIDTH sets it)");
}

std::string verdict(const std::vector<Finding>& findings) {
  const auto count = [&](Level level) {
    return std::count_if(findings.begin(), findings.end(), [&](const Finding& each) { return each.level == level; });
  };
  const auto problems = count(Level::kProblem), warnings = count(Level::kWarning);
  if (problems == 0 && warnings == 0) return "verdict: all right\n";
  const std::string warned = fmt::format("{} warning{}", warnings, warnings == 1 ? "" : "s");
  if (problems == 0) return fmt::format("verdict: all right, {}\n", warned);
  return fmt::format("verdict: {} problem{}, {}\n", problems, problems == 1 ? "" : "s", warned);
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
  const std::string head =
      fmt::format("bps-doctor: {} of {} ranks on {} machines, {} servers, authentication {}\n", survey.facts.size(),
                  survey.ranks, machinesOf(survey).size(), survey.serverNames.size(), survey.auth ? "on" : "off");
  return head + machineTable(survey) + serverLines(survey) + reduceLine(survey) + findingsText(findings) +
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
    json["facts"].push_back(nlohmann::ordered_json(entry));
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
  const ExpectedTime expected = expectedTime(survey);
  json["all_reduce"]["expected_seconds"] = expected.seconds;
  json["all_reduce"]["expected_from"] = expected.measured ? "measured rate" : "rates of the NICs";
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace bps::doctor
