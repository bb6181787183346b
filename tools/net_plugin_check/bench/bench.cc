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
  const Comparison* comparison = nullptr;
  Series ours, baseline, ratio;
};

// The measurements of one repetition, by rule. Each rule runs one time in a repetition.
using Repetition = std::map<const Rule*, std::map<std::string, double>>;

Status runRule(const CheckOptions& options, const Rule* rule, Repetition& repetition) {
  if (repetition.count(rule) > 0) return {};
  RuleResult finding = supervise(options, *rule, std::max(options.device, 0));
  if (finding.verdict != Verdict::kPass) return failure(Code::kSystem, "{}: {}", rule->name, finding.detail);
  repetition[rule] = std::move(finding.measures);
  return {};
}

// Runs one repetition. The two rules of a comparison run directly one after another, so that both
// rules run under the same conditions.
Status runRepetition(const CheckOptions& options, std::vector<ComparisonRow>& lines) {
  Repetition repetition;
  for (ComparisonRow& line : lines) {
    BPS_TRY(runRule(options, line.comparison->ours, repetition));
    BPS_TRY(runRule(options, line.comparison->baseline, repetition));
    const double ours = repetition[line.comparison->ours][line.comparison->measure];
    const double baseline = repetition[line.comparison->baseline][line.comparison->measure];
    line.ours.values.push_back(ours);
    line.baseline.values.push_back(baseline);
    line.ratio.values.push_back(baseline > 0 ? ours / baseline : 0);
  }
  return {};
}

void print(const CheckOptions& options, const std::vector<ComparisonRow>& lines) {
  fmt::print("messages of {} bytes, {} in flight; {} repetitions, median (min-max)\n", options.benchBytes,
             PipelinedTransfer::kInFlight, options.bench);
  fmt::print("{:<28} {:>27} {:>27} {:>21}\n", "", "plugin", "plain " + options.against, "ratio");
  for (const ComparisonRow& line : lines)
    fmt::print("{:<28} {:>27} {:>27} {:>21}\n", line.comparison->what, line.ours.text(3), line.baseline.text(3),
               line.ratio.text(3));
}

Status write(const CheckOptions& options, const std::vector<ComparisonRow>& lines) {
  nlohmann::json all = nlohmann::json::array();
  for (const ComparisonRow& line : lines)
    all.push_back({{"what", line.comparison->what},
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
  for (const Comparison& comparison : comparisons(options.against)) {
    const auto named = std::find(options.only.begin(), options.only.end(), comparison.ours->name);
    if (options.only.empty() || named != options.only.end()) lines.push_back({&comparison, {}, {}, {}});
  }
  for (size_t i = 0; i < options.bench; ++i) BPS_TRY(runRepetition(options, lines));
  print(options, lines);
  return options.json.empty() ? Status() : write(options, lines);
}

}  // namespace

std::vector<std::string> comparisonNames(const std::string& against) {
  std::vector<std::string> names;
  for (const Comparison& comparison : comparisons(against)) names.emplace_back(comparison.ours->name);
  return names;
}

int runBench(const CheckOptions& options) {
  const Status outcome = run(options);
  if (!outcome.ok()) fmt::print(stderr, "net-plugin-check: {}\n", outcome.message());
  return outcome.ok() ? 0 : 1;
}

}  // namespace bps::check
