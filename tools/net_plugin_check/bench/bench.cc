#include "tools/net_plugin_check/bench/bench.h"

#include <fmt/core.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

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
  const std::span<const Contest> all = contests(options.against);
  Round round;
  for (const Contest& contest : all) {
    BPS_TRY(runRule(options, contest.ours, round));
    BPS_TRY(runRule(options, contest.rival, round));
  }
  for (size_t i = 0; i < all.size(); ++i) {
    const double ours = round[all[i].ours][all[i].measure], rival = round[all[i].rival][all[i].measure];
    lines[i].ours.values.push_back(ours);
    lines[i].rival.values.push_back(rival);
    lines[i].ratio.values.push_back(rival > 0 ? ours / rival : 0);
  }
  return {};
}

void print(const CheckOptions& options, const std::vector<Line>& lines) {
  fmt::print("{} messages, {} in flight, {} times, median (least-most)\n", options.benchBytes, 8, options.bench);
  fmt::print("{:<28}{:>24}{:>24}{:>22}\n", "", "plugin", "plain " + options.against, "ratio");
  for (size_t i = 0; i < lines.size(); ++i)
    fmt::print("{:<28}{:>24}{:>24}{:>22}\n", contests(options.against)[i].what, lines[i].ours.text(3),
               lines[i].rival.text(3), lines[i].ratio.text(3));
}

Status write(const CheckOptions& options, const std::vector<Line>& lines) {
  nlohmann::json all = nlohmann::json::array();
  for (size_t i = 0; i < lines.size(); ++i)
    all.push_back({{"what", contests(options.against)[i].what},
                   {"plugin", lines[i].ours.values},
                   {"plain", lines[i].rival.values},
                   {"ratio", lines[i].ratio.values}});
  std::ofstream out(options.json);
  out << all.dump(2) << '\n';
  out.close();
  if (!out) return failure(Code::kSystem, "--json {}: cannot be written", options.json);
  return {};
}

Status run(const CheckOptions& options) {
  std::vector<Line> lines(contests(options.against).size());
  for (size_t i = 0; i < options.bench; ++i) BPS_TRY(runRound(options, lines));
  print(options, lines);
  return options.json.empty() ? Status() : write(options, lines);
}

}  // namespace

int runBench(const CheckOptions& options) {
  const Status outcome = run(options);
  if (!outcome.ok()) fmt::print(stderr, "net-plugin-check: {}\n", outcome.message());
  return outcome.ok() ? 0 : 1;
}

}  // namespace bps::check
