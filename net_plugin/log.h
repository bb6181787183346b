// The plugin's log: through the logger that the caller of init gave, so that lines appear in the caller's log.
#pragma once
#include <fmt/core.h>

#include <string>
#include <utility>

#include "net_plugin/abi.h"

namespace bps::plugin {

// It serves all; null: the log of src/base.
void setLogger(abi::Logger logger);
void logLine(int level, const std::string& text);
// A setting that is wrong, for callers that do not read the same environment: bps's own logger drops these lines.
void logEnvWarning(const std::string& text);

template <class... Args>
void logInfo(fmt::format_string<Args...> text, Args&&... args) {
  logLine(abi::kLogInfo, fmt::format(text, std::forward<Args>(args)...));
}
// Why a call fails, right before it returns its code; also what the user should see of calls that do not fail.
template <class... Args>
void logWarn(fmt::format_string<Args...> text, Args&&... args) {
  logLine(abi::kLogWarn, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace bps::plugin
