#include "tools/net_plugin_check/bench/bench.h"

#include <fmt/core.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/net_plugin_check/bench/pipelined_transfer.h"

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

struct ComparisonRow {
  const Comparison* contest = nullptr;
  Series ours, baseline, ratio;
};

// What a round has measured, by rule; each rule once.
using Repetition = std::map<const Rule*, std::map<std::string, double>>;

Status runRule(const CheckOptions& options, const Rule* rule, Repetition& repetition) {
  if (repetition.count(rule) > 0) return {};
  RuleResult finding = supervise(options, *rule, std::max(options.device, 0));
  if (finding.verdict != Verdict::kPass) return failure(Code::kSystem, "{}: {}", rule->name, finding.detail);
  repetition[rule] = std::move(finding.measures);
  return {};
}

// All of them one after the other, so that the two of a pair see the same machine.
Status runRepetition(const CheckOptions& options, std::vector<ComparisonRow>& lines) {
  Repetition repetition;
  for (ComparisonRow& line : lines) {
    BPS_TRY(runRule(options, line.contest->ours, repetition));
    BPS_TRY(runRule(options, line.contest->baseline, repetition));
    const double ours = repetition[line.contest->ours][line.contest->measure];
    const double baseline = repetition[line.contest->baseline][line.contest->measure];
    line.ours.values.push_back(ours);
    line.baseline.values.push_back(baseline);
    line.ratio.values.push_back(baseline > 0 ? ours / baseline : 0);
  }
  return {};
}

void print(const CheckOptions& options, const std::vector<ComparisonRow>& lines) {
  fmt::print("messages of {} bytes, {} in flight; {} times, median (least-most)\n", options.benchBytes,
             PipelinedTransfer::kInFlight, options.bench);
  fmt::print("{:<28} {:>27} {:>27} {:>21}\n", "", "plugin", "plain " + options.against, "ratio");
  for (const ComparisonRow& line : lines)
    fmt::print("{:<28} {:>27} {:>27} {:>21}\n", line.contest->what, line.ours.text(3), line.baseline.text(3),
               line.ratio.text(3));
}

Status write(const CheckOptions& options, const std::vector<ComparisonRow>& lines) {
  nlohmann::json all = nlohmann::json::array();
  for (const ComparisonRow& line : lines)
    all.push_back({{"what", line.contest->what},
                   {"plugin", line.ours.values},
                   {"plain", line.baseline.values},
                   {"ratio", line.ratio.values}});
  std::ofstream out(options.json);
  out << all.dump(2) << '\n';
  out.close();
  if (!out) return failure(Code::kSystem, "--json {}: cannot be written", options.json);
  return {};
}

Status run(const CheckOptions& options) {
  std::vector<ComparisonRow> lines;
  for (const Comparison& contest : comparisons(options.against)) {
    const auto named = std::find(options.only.begin(), options.only.end(), contest.ours->name);
    if (options.only.empty() || named != options.only.end()) lines.push_back({&contest, {}, {}, {}});
  }
  for (size_t i = 0; i < options.bench; ++i) BPS_TRY(runRepetition(options, lines));
  print(options, lines);
  return options.json.empty() ? Status() : write(options, lines);
}

}  // namespace

std::vector<std::string> comparisonNames(const std::string& against) {
  std::vector<std::string> names;
  for (const Comparison& contest : comparisons(against)) names.emplace_back(contest.ours->name);
  return names;
}

int runBench(const CheckOptions& options) {
  const Status outcome = run(options);
  if (!outcome.ok()) fmt::print(stderr, "net-plugin-check: {}\n", outcome.message());
  return outcome.ok() ? 0 : 1;
}

}  // namespace bps::check
