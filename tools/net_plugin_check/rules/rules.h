// The rules that are checked, by name, in the order in which they run.
#pragma once
#include <span>
#include <string>

#include "tools/net_plugin_check/side.h"

namespace bps::check {

// What happens to the sides beside running the body.
enum class Scenario {
  kBothClose,
  kReceiverOnly,  // there is only the receiving side
  kSenderDies,    // is killed by the receiver, in a process of its own
  kReceiverDies,
  kExit,  // both leave by exit(), with everything open
};

struct Rule {
  const char* name;
  const char* about;
  // The text of a rule that holds: what was measured or seen, or empty.
  Result<std::string> (*body)(Side&);
  Scenario scenario = Scenario::kBothClose;
  bool isPerDevice = true;  // else it is asked once, not for each device
  bool isMeasure = false;   // of speed, and holds always
};

std::span<const Rule> setupRules();  // the first two: `init` and `properties`
std::span<const Rule> messageRules();
std::span<const Rule> gpuRules();
std::span<const Rule> failureRules();
std::span<const Rule> measurements();

}  // namespace bps::check
