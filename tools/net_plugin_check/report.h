// Report: prints the results while the rules run, and writes them as JSON. The supervising thread
// uses it.
#pragma once
#include <fmt/core.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "tools/net_plugin_check/supervisor.h"

namespace bps::check {

class Report {
 public:
  void device(int index, bool threads) {
    fmt::print("device {}, {}\n", index, threads ? "two threads" : "two processes");
  }

  void add(RuleResult finding) {
    const bool measured = finding.rule->isMeasure && finding.verdict == Verdict::kPass;
    if (!measured) ++counts_[static_cast<size_t>(finding.verdict)];
    fmt::print("{}  {:<24}{}\n", measured ? "    " : textOf(finding.verdict), finding.rule->name,
               finding.detail.empty() ? finding.rule->about : finding.detail);
    std::fflush(stdout);
    results_.push_back(std::move(finding));
  }

  void end() const {
    fmt::print("{} passed, {} failed, {} skipped\n", count(Verdict::kPass), failed(), count(Verdict::kSkip));
  }
  size_t failed() const { return count(Verdict::kFail); }

  // Writes the JSON file. A failure names that file.
  Status write(const std::string& file, const std::string& plugin) const {
    nlohmann::json rules = nlohmann::json::array(), measures = nlohmann::json::array();
    for (const RuleResult& finding : results_) {
      nlohmann::json entry{{"rule", finding.rule->name},
                           {"result", textOf(finding.verdict)},
                           {"detail", finding.detail},
                           {"seconds", finding.seconds}};
      if (finding.device >= 0) entry["device"] = finding.device;
      if (finding.rule->isMeasure) entry["measures"] = finding.measures;
      (finding.rule->isMeasure ? measures : rules).push_back(std::move(entry));
    }
    const nlohmann::json all{{"plugin", plugin},        {"rules", rules},
                             {"performance", measures}, {"passed", count(Verdict::kPass)},
                             {"failed", failed()},      {"skipped", count(Verdict::kSkip)}};
    std::ofstream out(file);
    out << all.dump(2) << '\n';
    out.close();
    if (!out) return failure(Code::kSystem, "--json {}: cannot be written", file);
    return {};
  }

 private:
  static const char* textOf(Verdict verdict) {
    return verdict == Verdict::kPass ? "PASS" : verdict == Verdict::kFail ? "FAIL" : "skip";
  }
  size_t count(Verdict verdict) const { return counts_[static_cast<size_t>(verdict)]; }

  std::vector<RuleResult> results_;
  std::array<size_t, 3> counts_{};
};

}  // namespace bps::check
