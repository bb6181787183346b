// Supervisor: runs one rule with its sides in child processes. A plugin that hangs or crashes
// therefore fails only this rule. The supervising process never loads the plugin, and it has only
// one thread.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "tools/net_plugin_check/rules/rules.h"

namespace bps::check {

enum class Verdict { kPass, kFail, kSkip };

struct RuleResult {
  const Rule* rule = nullptr;
  int device = -1;
  Verdict verdict = Verdict::kFail;
  std::string detail;
  double seconds = 0;
  std::map<std::string, double> measures{};
};

// Runs the rule and returns its result. `device` is -1 if the rule does not apply to a device.
RuleResult supervise(const CheckOptions& options, const Rule& rule, int device);

}  // namespace bps::check
