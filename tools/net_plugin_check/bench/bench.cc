#include "tools/net_plugin_check/bench/bench.h"

#include <fmt/core.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/net_plugin_check/bench/pump.h"

namespace bps::check {
namespace {

struct Series {
  std::vector<double> values;

  double at(size_t rank) const {
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    return sorted[rank];
  }
  std::string text(int digits) const {
    return fmt::format("{:.{}f} ({:.{}f}-{:.{}f})", at(values.size() / 2), digits, at(0), digits, at(values.size() - 1),
                       digits);
  }
};

struct Line {
  const Contest* contest = nullptr;
  Series ours, rival, ratio;
};

// What a round has measured, by rule; each rule once.
using Round = std::map<const Rule*, std::map<std::string, double>>;

Status runRule(const CheckOptions& options, const Rule* rule, Round& round) {
  if (round.count(rule) > 0) return {};
  Finding finding = supervise(options, *rule, std::max(options.device, 0));
  if (finding.verdict != Verdict::kPass) return failure(Code::kSystem, "{}: {}", rule->name, finding.detail);
  round[rule] = std::move(finding.measures);
  return {};
}

// All of them one after the other, so that the two of a pair see the same machine.
Status runRound(const CheckOptions& options, std::vector<Line>& lines) {
  Round round;
  for (Line& line : lines) {
    BPS_TRY(runRule(options, line.contest->ours, round));
    BPS_TRY(runRule(options, line.contest->rival, round));
    const double ours = round[line.contest->ours][line.contest->measure];
    const double rival = round[line.contest->rival][line.contest->measure];
    line.ours.values.push_back(ours);
    line.rival.values.push_back(rival);
    line.ratio.values.push_back(rival > 0 ? ours / rival : 0);
  }
  return {};
}

void print(const CheckOptions& options, const std::vector<Line>& lines) {
  fmt::print("messages of {} bytes, {} in flight; {} times, median (least-most)\n", options.benchBytes, Pump::kInFlight,
             options.bench);
  fmt::print("{:<28} {:>27} {:>27} {:>21}\n", "", "plugin", "plain " + options.against, "ratio");
  for (const Line& line : lines)
    fmt::print("{:<28} {:>27} {:>27} {:>21}\n", line.contest->what, line.ours.text(3), line.rival.text(3),
               line.ratio.text(3));
}

Status write(const CheckOptions& options, const std::vector<Line>& lines) {
  nlohmann::json all = nlohmann::json::array();
  for (const Line& line : lines)
    all.push_back({{"what", line.contest->what},
                   {"plugin", line.ours.values},
                   {"plain", line.rival.values},
                   {"ratio", line.ratio.values}});
  std::ofstream out(options.json);
  out << all.dump(2) << '\n';
  out.close();
  if (!out) return failure(Code::kSystem, "--json {}: cannot be written", options.json);
  return {};
}

Status run(const CheckOptions& options) {
  std::vector<Line> lines;
  for (const Contest& contest : contests(options.against)) {
    const auto named = std::find(options.only.begin(), options.only.end(), contest.ours->name);
    if (options.only.empty() || named != options.only.end()) lines.push_back({&contest, {}, {}, {}});
  }
  for (size_t i = 0; i < options.bench; ++i) BPS_TRY(runRound(options, lines));
  print(options, lines);
  return options.json.empty() ? Status() : write(options, lines);
}

}  // namespace

std::vector<std::string> contestNames(const std::string& against) {
  std::vector<std::string> names;
  for (const Contest& contest : contests(against)) names.emplace_back(contest.ours->name);
  return names;
}

int runBench(const CheckOptions& options) {
  const Status outcome = run(options);
  if (!outcome.ok()) fmt::print(stderr, "net-plugin-check: {}\n", outcome.message());
  return outcome.ok() ? 0 : 1;
}

}  // namespace bps::check
