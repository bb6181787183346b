// Rule: a property that a plugin must have, and the code that checks the property. The lists of
// rules are in the order of execution.
#pragma once
#include <span>
#include <string>

#include "tools/net_plugin_check/side.h"

namespace bps::check {

// An event that happens to the sides in addition to the rule's body.
enum class Scenario {
  kBothClose,
  kReceiverOnly,  // only the receiving side exists
  kSenderDies,    // the receiver kills the sender's process
  kReceiverDies,  // the sender kills the receiver's process
  kExit,          // both sides call exit() without closing anything
};

struct Rule {
  const char* name;
  const char* about;
  // Checks the rule. Returns a text about the passed rule, such as measured values, or empty text.
  Result<std::string> (*body)(Side&);
  Scenario scenario = Scenario::kBothClose;
  bool isPerDevice = true;  // if false, the rule runs only one time, not for each device
  bool isMeasure = false;   // a measurement of speed, which always passes
};

std::span<const Rule> setupRules();  // the first two rules are `init` and `properties`
std::span<const Rule> messageRules();
std::span<const Rule> gpuRules();
std::span<const Rule> failureRules();
std::span<const Rule> measurements();

}  // namespace bps::check
